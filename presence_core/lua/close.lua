#!lua flags=allow-oom
-- A bulk kick has ended, and what it ended is counted: written into the audit once. Done or failed says the runner that
-- holds it; one that staff have cancelled is closed once fence.lua has stopped its runners on every shard.
-- include: time
-- include: ending
-- include: epoch
-- KEYS: 1 job 2 running 3 audit
-- ARGV: 1 now|'' 2 policy's audit cap 3 id 4 token|'' 5 done|failed|cancelled 6 error|'' 7 outcome for
--       the audit 8 seconds that it is kept 9 sessions it has looked at|'' (of one that is cancelled)
-- returns: 1, or 0: it has been paused or cancelled, or another runner holds it
local now = clock(ARGV[1])
local bad = foreign('HLEN', KEYS[1], 'SCARD', KEYS[2], 'XLEN', KEYS[3])
if bad then return bad end
local row = redis.call('HMGET', KEYS[1], 'state', 'owner', 'by', 'reason', 'message', 'ticket', 'epoch', 'closed')
local cancelled = ARGV[5] == 'cancelled'
if not cancelled and row[2] ~= ARGV[4] then return 0 end
if row[1] == ARGV[5] and (row[8] or not cancelled) then return 1 end -- sent again, or closed by another
if row[1] ~= (cancelled and 'cancelled' or 'running') then return 0 end

-- Nothing below can fail.
if not cancelled then
  redis.call('HSET', KEYS[1], 'state', ARGV[5], 'error', ARGV[6], 'examined', ARGV[9], 'epoch', ms(whole(row[7]) + 1),
             'updated', ms(now), 'finished', ms(now))
end
redis.call('HSET', KEYS[1], 'closed', '1')
redis.call('HDEL', KEYS[1], 'cursor') -- it names a session
redis.call('EXPIRE', KEYS[1], ARGV[8])
redis.call('SREM', KEYS[2], ARGV[3])
redis.call('XADD', KEYS[3], 'MAXLEN', '~', ARGV[2], '*', 'at', ms(now), 'by', row[3] or '', 'what', 'kick_where', 'uid', '',
           'session', '', 'reason', row[4] or '', 'message', row[5] or '', 'ticket', row[6] or '', 'outcome', ARGV[7])
return 1
