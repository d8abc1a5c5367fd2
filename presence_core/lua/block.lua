#!lua flags=allow-oom
-- Staff block a user: no login from now on. A block that there was is replaced.
-- include: time
-- include: ending
-- include: hold
-- KEYS: 1 block 2 blocks 3 audit
-- ARGV: 1 now|'' 2 policy 3 uid 4 by 5 reason 6 message|'' 7 ticket|'' 8 seconds|''
-- returns: {at, until|''}, ms
local now, policy = clock(ARGV[1]), read_policy(ARGV[2])
local bad = foreign('HLEN', KEYS[1], 'ZCARD', KEYS[2], 'XLEN', KEYS[3])
if bad then return bad end
local ends = held_until(now, ARGV[8])

-- Nothing below can fail.
write_hold(policy, KEYS[1], KEYS[2], ARGV[3], now, ends, ARGV[4], ARGV[5], ARGV[6], ARGV[7])
redis.call('XADD', KEYS[3], 'MAXLEN', '~', policy.audit, '*', 'at', ms(now), 'by', ARGV[4], 'what', 'block',
           'uid', ARGV[3], 'session', '', 'reason', ARGV[5], 'message', ARGV[6], 'ticket', ARGV[7],
           'until', ends == '' and 'ever' or ends)
return {ms(now), ends}
