#!lua flags=allow-oom
-- A bulk kick has come to its end, or cannot go on: told by the runner that holds it, and written into the audit once.
-- include: time
-- include: ending
-- include: epoch
-- KEYS: 1 job 2 running 3 audit
-- ARGV: 1 now|'' 2 policy's audit cap 3 id 4 token 5 done|failed 6 error|'' 7 outcome for the audit
--       8 seconds that it is kept 9 sessions it has looked at
-- returns: 1, or 0: it has been paused or cancelled, or another runner holds it
local now = clock(ARGV[1])
local bad = foreign('HLEN', KEYS[1], 'SCARD', KEYS[2], 'XLEN', KEYS[3])
if bad then return bad end
local row = redis.call('HMGET', KEYS[1], 'state', 'owner', 'by', 'reason', 'message', 'ticket', 'epoch')
if row[2] ~= ARGV[4] then return 0 end
if row[1] == ARGV[5] then return 1 end -- sent again
if row[1] ~= 'running' then return 0 end

-- Nothing below can fail.
redis.call('HSET', KEYS[1], 'state', ARGV[5], 'error', ARGV[6], 'examined', ARGV[9], 'epoch', ms(whole(row[7]) + 1),
           'updated', ms(now), 'finished', ms(now))
redis.call('HDEL', KEYS[1], 'cursor') -- it names a session
redis.call('EXPIRE', KEYS[1], ARGV[8])
redis.call('SREM', KEYS[2], ARGV[3])
redis.call('XADD', KEYS[3], 'MAXLEN', '~', ARGV[2], '*', 'at', ms(now), 'by', row[3] or '', 'what', 'kick_where', 'uid', '',
           'session', '', 'reason', row[4] or '', 'message', row[5] or '', 'ticket', row[6] or '', 'outcome', ARGV[7])
return 1
