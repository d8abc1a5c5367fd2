#!lua flags=allow-oom
-- Staff pause, resume or cancel a bulk kick. Its runners have stopped once bulk_kick/raise_job_fence.lua has raised
-- every shard's fence to the epoch that this returns. If the process dies before that, a worker closes a cancelled job.
-- include: clock
-- include: sessions/end_session
-- include: staff/audit_entry
-- include: bulk_kick/fencing_epoch
-- include: bulk_kick/job_action
-- KEYS: 1 job 2 running 3 audit
-- ARGV: 1 now|'' 2 policy's audit cap 3 id 4 pause|resume|cancel 5 by 6 facts for the audit 7 seconds that it is kept
-- returns: {1: changed; 0: it had this state already; -1: not possible from this state, the state before|'', epoch}
local job, running, audit = unpack(KEYS)
local given_now, audit_cap, id, change, by, facts, keep = unpack(ARGV, 1, ARGS)
local now = clock(given_now)
local bad = foreign('HLEN', job, 'SCARD', running, 'XLEN', audit)
if bad then return bad end
local before, reason, ticket, epoch, kind =
  unpack(redis.call('HMGET', job, 'state', 'reason', 'ticket', 'epoch', 'kind'))
before, epoch = before or '', whole(epoch)
local after = ({pause = 'paused', resume = 'running', cancel = 'cancelled'})[change]
if before == after then return {0, before, epoch} end
if before ~= 'running' and before ~= 'paused' then return {-1, before, epoch} end

-- Nothing below can fail.
if change ~= 'resume' then epoch = epoch + 1 end
redis.call('HSET', job, 'state', after, 'epoch', ms(epoch), 'updated', ms(now))
redis.call('HDEL', job, 'beat') -- a new runner need not wait for the claim of the last one
if change == 'cancel' then redis.call('HSET', job, 'finished', ms(now)) end
redis.call('EXPIRE', job, keep)
redis.call(change == 'pause' and 'SREM' or 'SADD', running, id) -- a cancelled job until it is closed
write_audit_entry(audit, audit_cap, ms(now), by, job_action(kind) .. '_' .. change,
                  {reason = reason, ticket = ticket}, 'facts', facts)
return {1, before, epoch}
