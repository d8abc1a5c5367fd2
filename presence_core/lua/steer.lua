#!lua flags=allow-oom
-- Staff pause, resume or cancel a bulk kick. It is stopped once fence.lua has told every shard of the epoch that this
-- answers.
-- include: time
-- include: ending
-- include: epoch
-- KEYS: 1 job 2 running 3 audit
-- ARGV: 1 now|'' 2 policy's audit cap 3 id 4 pause|resume|cancel 5 by 6 outcome for the audit 7 seconds that it is kept
-- returns: {1 done | 0 it was so already | -1 not from this state, the state before|'', epoch}
local now, act = clock(ARGV[1]), ARGV[4]
local bad = foreign('HLEN', KEYS[1], 'SCARD', KEYS[2], 'XLEN', KEYS[3])
if bad then return bad end
local row = redis.call('HMGET', KEYS[1], 'state', 'reason', 'ticket', 'epoch')
local before, epoch = row[1] or '', whole(row[4])
local after = ({pause = 'paused', resume = 'running', cancel = 'cancelled'})[act]
if before == after then return {0, before, epoch} end
if before ~= 'running' and before ~= 'paused' then return {-1, before, epoch} end

-- Nothing below can fail.
if act ~= 'resume' then epoch = epoch + 1 end
redis.call('HSET', KEYS[1], 'state', after, 'epoch', ms(epoch), 'updated', ms(now))
redis.call('HDEL', KEYS[1], 'beat') -- nobody has to be waited for
if act == 'cancel' then redis.call('HSET', KEYS[1], 'finished', ms(now)) end
redis.call('EXPIRE', KEYS[1], ARGV[7])
redis.call(act == 'resume' and 'SADD' or 'SREM', KEYS[2], ARGV[3])
redis.call('XADD', KEYS[3], 'MAXLEN', '~', ARGV[2], '*', 'at', ms(now), 'by', ARGV[5], 'what', 'kick_where_' .. act,
           'uid', '', 'session', '', 'reason', row[2] or '', 'message', '', 'ticket', row[3] or '', 'outcome', ARGV[6])
return {1, before, epoch}
