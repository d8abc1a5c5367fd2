#!lua flags=allow-oom
-- A bulk kick is written down, with its audit entry. From here on whoever gets hold of it runs it. Sent again, it is the
-- same job.
-- include: time
-- include: ending
-- KEYS: 1 job 2 jobs 3 running 4 audit
-- ARGV: 1 now|'' 2 policy's audit cap 3 id 4 seconds that it is kept 5 jobs that are listed, at most 6 token of who runs
--       it|'' 7 by 8 reason 9 message|'' 10 ticket|'' 11 outcome for the audit 12… field, value: the rest of the job
-- returns: 1, or 0 where it was there already
local now = clock(ARGV[1])
local bad = foreign('HLEN', KEYS[1], 'ZCARD', KEYS[2], 'SCARD', KEYS[3], 'XLEN', KEYS[4])
if bad then return bad end
if redis.call('HEXISTS', KEYS[1], 'state') == 1 then return 0 end

-- Nothing below can fail.
redis.call('HSET', KEYS[1], 'state', 'running', 'by', ARGV[7], 'reason', ARGV[8], 'message', ARGV[9], 'ticket', ARGV[10],
           'created', ms(now), 'updated', ms(now), 'owner', ARGV[6], 'beat', ms(now), unpack(ARGV, 12))
redis.call('EXPIRE', KEYS[1], ARGV[4])
redis.call('ZADD', KEYS[2], now, ARGV[3])
redis.call('ZREMRANGEBYRANK', KEYS[2], 0, -ARGV[5] - 1)
redis.call('SADD', KEYS[3], ARGV[3])
redis.call('XADD', KEYS[4], 'MAXLEN', '~', ARGV[2], '*', 'at', ms(now), 'by', ARGV[7], 'what', 'kick_where_start', 'uid', '',
           'session', '', 'reason', ARGV[8], 'message', ARGV[9], 'ticket', ARGV[10], 'outcome', ARGV[11])
return 1
