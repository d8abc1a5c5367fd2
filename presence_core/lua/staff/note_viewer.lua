#!lua
-- Notes that a staff member has a person open, and reads who else has.
-- include: clock
-- KEYS: 1 viewers of the person
-- ARGV: 1 now|'' 2 member 3 seconds that a note is kept 4 how many members are noted
--   5 1: the member has closed the person
-- returns: {name, since ms, name, …} of the others
-- A note: "since seen", ms.
local viewers = KEYS[1]
local given_now, member, keep, most, closed = unpack(ARGV)
local now = clock(given_now)
local oldest, since = now - keep * 1000, nil
local notes, others, expired = redis.call('HGETALL', viewers), {}, {}
for i = 1, #notes, 2 do
  local first, last = string.match(notes[i + 1], '^(%d+) (%d+)$')
  if not first or tonumber(last) < oldest then
    expired[#expired + 1] = notes[i]
  elseif notes[i] == member then
    since = first
  else
    others[#others + 1], others[#others + 2] = notes[i], first
  end
end
if #expired > 0 then redis.call('HDEL', viewers, unpack(expired)) end
if closed == '1' then
  redis.call('HDEL', viewers, member)
elseif since or #others < 2 * tonumber(most) then
  redis.call('HSET', viewers, member, (since or ms(now)) .. ' ' .. ms(now))
  redis.call('EXPIRE', viewers, keep)
end
return others
