#!lua flags=allow-oom
-- Who may work with the dashboard, and as what: one record is written, and that it was.
-- include: time
-- include: ending
-- KEYS: 1 staff 2 audit
-- ARGV: 1 now|'' 2 audit cap 3 name 4 role|'removed' 5 by 6 set|seed|force 7 how many records there may be
--   seed: only where there is no record yet. force: also where nobody would be left who is admin
-- returns: {1 written | 0 it was so already | -1 the last admin | -2 no room, the record that holds now|''}
-- A record: "role\nsince, ms\nby".
local now, role, how = clock(ARGV[1]), ARGV[4], ARGV[6]
local bad = foreign('HLEN', KEYS[1], 'XLEN', KEYS[2])
if bad then return bad end
local function role_of(record)
  local known, since = string.match(record or '', '^(%l+)\n(%d+)\n')
  return known and #since <= 14 and known -- StaffMember.from_reply reads no other
end

local old = redis.call('HGET', KEYS[1], ARGV[3])
local was = role_of(old)
if old and (how == 'seed' or was == role) then return {0, old} end
if not old and role == 'removed' then return {0, ''} end
if not old and redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[7]) then return {-2, ''} end
if was == 'admin' and how ~= 'force' then
  local others = 0
  local flat = redis.call('HGETALL', KEYS[1])
  for i = 1, #flat, 2 do
    if flat[i] ~= ARGV[3] and role_of(flat[i + 1]) == 'admin' then others = others + 1 end
  end
  if others == 0 then return {-1, old} end
end

-- Nothing below can fail.
local record = table.concat({role, ms(now), ARGV[5]}, '\n')
local before = was and was ~= 'removed' and ', was ' .. was or ''
local outcome = ARGV[3] .. (role == 'removed' and ' is no longer on the staff' or ' is now ' .. role) .. before
if how == 'force' then outcome = outcome .. ' (glass broken)' end
redis.call('HSET', KEYS[1], ARGV[3], record)
redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[2], '*', 'at', ms(now), 'by', ARGV[5], 'what', 'staff',
           'uid', '', 'session', '', 'reason', '', 'message', '', 'ticket', '', 'outcome', outcome)
return {1, record}
