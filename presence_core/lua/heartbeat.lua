#!lua flags=allow-oom
-- These sessions were seen. Can only move a live session's deadline forward: XX and GT, never past the absolute one.
-- include: time
-- include: record
-- include: vouched
-- KEYS: 1 sessions  2 deadlines  3 users  4 meta  5… a record for each ref
-- ARGV: 1 now|''  2… uid, sid for each ref
-- returns: the places (from 1) of those that are not live; below 0 where one is past its deadline by a clock that is in
--          order, so that its end is to be written
local now = clock(ARGV[1])
local n, revoked = #KEYS - 4, watermark(KEYS[4])
local refs = {}
for i = 1, n do refs[i] = ARGV[2 * i] .. ':' .. ARGV[2 * i + 1] end
local listed = redis.call('ZMSCORE', KEYS[1], unpack(refs))
local stamp = string.format('%.0f', now)
local gone, deadlines, users = {}, {'XX', 'GT'}, {'XX', 'GT'}
local d, u, last, good = 2, 2, nil, nil
redis.call('ZCARD', KEYS[2])
redis.call('ZCARD', KEYS[3])
for i = 1, n do
  local record = KEYS[i + 4]
  -- pcall, and sound: one session's spoiled record must not keep the others from being seen
  local row = listed[i] and redis.pcall('HMGET', record, 's', 'c') or {}
  local core = sound(row[1], row[2]) and row[2]
  local seen = core and tonumber(row[1])
  local dies, login
  if core then dies, login = deadline_of(seen, core) end
  if not core or now >= dies or login <= revoked then
    if core and login > revoked and good == nil then good = vouched(now, KEYS[4]) or false end
    gone[#gone + 1] = core and login > revoked and good and -i or i
  elseif now > seen then
    redis.call('HSET', record, 's', stamp)
    deadlines[d + 1] = deadline_of(now, core)
    deadlines[d + 2] = refs[i]
    d = d + 2
    local uid = ARGV[2 * i]
    if uid ~= last then
      users[u + 1] = stamp
      users[u + 2] = uid
      u = u + 2
      last = uid
    end
  end
end
if d > 2 then
  redis.call('ZADD', KEYS[2], unpack(deadlines))
  redis.call('ZADD', KEYS[3], unpack(users))
end
return gone
