#!lua flags=allow-oom
-- Writes a bulk kick, or a bulk change of timeouts, with its audit entry. From now on a runner may claim it. Sent
-- again, it changes nothing.
-- include: clock
-- include: sessions/end_session
-- include: staff/audit_entry
-- include: bulk_kick/job_action
-- KEYS: 1 job 2 jobs 3 running 4 audit
-- ARGV: 1 now|'' 2 policy's audit cap 3 id 4 seconds that it is kept 5 jobs that are listed, at most 6 token of the
--       runner|'' 7 by 8 reason 9 message|'' 10 ticket|'' 11 facts for the audit 12 delay: no runner may claim it
--       for so many ms 13 ''|timeouts: the kind 14 filter for the audit|'' 15… field, value: the rest of the job
-- returns: 1; 0: it was there already
local job, jobs, running, audit = unpack(KEYS)
local given_now, audit_cap, id, keep, most_listed, token, by, reason, message, ticket, facts, delay,
  kind, audit_filter = unpack(ARGV, 1, ARGS)
local now = clock(given_now)
local bad = foreign('HLEN', job, 'ZCARD', jobs, 'SCARD', running, 'XLEN', audit)
if bad then return bad end
if redis.call('HEXISTS', job, 'state') == 1 then return 0 end

-- Nothing below can fail.
redis.call('HSET', job, 'state', 'running', 'by', by, 'reason', reason, 'message', message, 'ticket', ticket,
           'created', ms(now), 'updated', ms(now), 'owner', token, 'beat', ms(now), 'kind', kind,
           unpack(ARGV, ARGS + 1))
if delay ~= '0' then redis.call('HSET', job, 'not_before', ms(now + tonumber(delay))) end
redis.call('EXPIRE', job, keep)
redis.call('ZADD', jobs, now, id)
redis.call('ZREMRANGEBYRANK', jobs, 0, -most_listed - 1)
redis.call('SADD', running, id)
local more = audit_filter ~= '' and {'filter', audit_filter} or {}
write_audit_entry(audit, audit_cap, ms(now), by, job_action(kind) .. '_start',
                  {reason = reason, message = message, ticket = ticket}, 'facts', facts, unpack(more))
return 1
