#!lua flags=allow-oom
-- Staff let a user log in again. Written down also where there was no block: somebody tried.
-- include: time
-- include: ending
-- include: hold
-- KEYS: 1 block 2 blocks 3 audit
-- ARGV: 1 now|'' 2 policy 3 uid 4 by 5 reason
-- returns: 1 if the user was blocked, else 0
local now, policy = clock(ARGV[1]), read_policy(ARGV[2])
local bad = foreign('HLEN', KEYS[1], 'ZCARD', KEYS[2], 'XLEN', KEYS[3])
if bad then return bad end
local hold = read_hold(now, KEYS[1])
local was = hold and 1 or 0

-- Nothing below can fail.
redis.call('UNLINK', KEYS[1])
redis.call('ZREM', KEYS[2], ARGV[3])
redis.call('XADD', KEYS[3], 'MAXLEN', '~', policy.audit, '*', 'at', after(hold, ms(now)), 'by', ARGV[4], 'what', 'unblock',
           'uid', ARGV[3], 'session', '', 'reason', ARGV[5], 'message', '', 'ticket', '', 'was', was)
return was
