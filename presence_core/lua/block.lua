#!lua flags=allow-oom
-- Staff block a user: no login from now on. A block that there is gets no shorter and keeps its tickets, unless it is
-- to be shortened: include/hold.lua.
-- include: time
-- include: ending
-- include: hold
-- KEYS: 1 block 2 blocks 3 audit
-- ARGV: 1 now|'' 2 policy 3 uid 4 by 5 reason 6 message|'' 7 tickets|'', one a line 8 end: seconds|'=' and ms|'' (none)
--       9 merge|shorten|again 10 at, ms 11 changed, ms (10 and 11 of a hold that is set again: as it was answered)
-- returns: the hold as it is now; or 0, and nothing is done: that end is over, or (again) the hold is still there, or
--          staff have changed or lifted it since
local now, policy = clock(ARGV[1]), read_policy(ARGV[2])
local bad = foreign('HLEN', KEYS[1], 'ZCARD', KEYS[2], 'XLEN', KEYS[3])
if bad then return bad end
local again = ARGV[9] == 'again'
local at = again and ARGV[10] or ms(now)
local changed = again and ARGV[11] or at
local asked = {by = ARGV[4], reason = ARGV[5], message = ARGV[6], ticket = ARGV[7], at = at, changed = changed,
               ['until'] = held_until(now, ARGV[8])}
if end_of(asked['until']) <= now then return 0 end
if again then
  local held = read_hold(now, KEYS[1])
  if held and tonumber(held.changed) >= tonumber(changed) then return 0 end
  for _, entry in ipairs(redis.call('XREVRANGE', KEYS[3], '+', '-', 'COUNT', 1000)) do
    local known = {}
    for i = 1, #entry[2], 2 do known[entry[2][i]] = entry[2][i + 1] end
    if known.uid == ARGV[3] and known.what == 'unblock' and (tonumber(known.at) or 0) >= tonumber(changed) then
      return 0
    end
  end
end

-- Nothing below can fail.
local row, entry = write_hold(policy, KEYS[1], KEYS[2], ARGV[3], now, asked, ARGV[9] == 'shorten')
if again then
  entry[#entry + 1] = 'again'
  entry[#entry + 1] = '1'
end
redis.call('XADD', KEYS[3], 'MAXLEN', '~', policy.audit, '*', 'at', row[#row], 'by', ARGV[4], 'what', 'block',
           'uid', ARGV[3], 'session', '', 'reason', ARGV[5], 'message', ARGV[6], 'ticket', ARGV[7], unpack(entry))
return row
