#!lua flags=allow-oom
-- A bulk kick has ended and its sessions are counted: writes the state and one audit entry. The runner that has claimed
-- the job closes it as done or failed. A cancelled job is closed after bulk_kick/raise_job_fence.lua has stopped its
-- runners.
-- include: clock
-- include: sessions/end_session
-- include: staff/audit_entry
-- include: bulk_kick/fencing_epoch
-- include: bulk_kick/job_action
-- KEYS: 1 job 2 running 3 audit
-- ARGV: 1 now|'' 2 policy's audit cap 3 id 4 token|'' 5 done|failed|cancelled 6 error|'' 7 its code|''
--       8 facts for the audit 9 seconds that it is kept 10 sessions that it has looked at|'' (cancelled)
-- returns: 1; 0: it was paused or cancelled, or another runner has claimed it
local job, running, audit = unpack(KEYS)
local given_now, audit_cap, id, token, new_state, error_text, error_code, facts, keep, examined =
  unpack(ARGV, 1, ARGS)
local now, cancelled = clock(given_now), new_state == 'cancelled'
local bad = foreign('HLEN', job, 'SCARD', running, 'XLEN', audit)
if bad then return bad end
local state, owner, by, reason, message, ticket, epoch, closed, kind =
  unpack(redis.call('HMGET', job, 'state', 'owner', 'by', 'reason', 'message', 'ticket', 'epoch', 'closed', 'kind'))
if not cancelled and owner ~= token then return 0 end
if state == new_state and (closed or not cancelled) then return 1 end -- sent again, or closed by another call
if state ~= (cancelled and 'cancelled' or 'running') then return 0 end

-- Nothing below can fail.
if not cancelled then
  redis.call('HSET', job, 'state', new_state, 'error', error_text, 'error_code', error_code, 'examined', examined,
             'epoch', ms(whole(epoch) + 1), 'updated', ms(now), 'finished', ms(now))
end
redis.call('HSET', job, 'closed', '1')
redis.call('HDEL', job, 'cursor') -- it names a session
redis.call('EXPIRE', job, keep)
redis.call('SREM', running, id)
write_audit_entry(audit, audit_cap, ms(now), by or '', job_action(kind),
                  {reason = reason, message = message, ticket = ticket}, 'facts', facts)
return 1
