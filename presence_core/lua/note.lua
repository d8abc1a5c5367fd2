#!lua flags=allow-oom
-- Staff did something that changes no session and no hold, such as an export: only that it was done is written.
-- include: time
-- include: ending
-- KEYS: 1 audit
-- ARGV: 1 now|'' 2 audit cap 3 by 4 what 5 uid|'' 6 reason|'' 7 outcome|''
-- returns: 1
local now = clock(ARGV[1])
local bad = foreign('XLEN', KEYS[1])
if bad then return bad end

-- Nothing below can fail.
redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[2], '*', 'at', ms(now), 'by', ARGV[3], 'what', ARGV[4], 'uid', ARGV[5],
           'session', '', 'reason', ARGV[6], 'message', '', 'ticket', '', 'outcome', ARGV[7])
return 1
