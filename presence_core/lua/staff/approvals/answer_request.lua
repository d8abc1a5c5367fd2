#!lua flags=allow-oom
-- Changes the state of a request: one of two answers wins, and no one approves their own request.
-- include: clock
-- include: key_types
-- include: staff/audit_entry
-- include: staff/audit_facts
-- KEYS: 1 approvals 2 audit
-- ARGV: 1 now|'' 2 audit cap 3 id 4 approve|refuse|withdraw|lapse|done|failed 5 by 6 word|'' 7 outcome|''
--   8 seconds that the key is kept 9 facts of what is approved instead, JSON|'' 10… field, value: what is approved
--   instead
-- returns: {1: changed; 0: no such request; -1: not possible from its state; -2: one's own; -3: not one's own,
--   the request|''}
-- A request that has lapsed is written as such by the first call after its end, whatever the answer is.
local approvals, audit = unpack(KEYS)
local given_now, audit_cap, id, answer, by, word, outcome, keep, more_facts = unpack(ARGV, 1, ARGS)
local now = clock(given_now)
local bad = foreign('HLEN', approvals, 'XLEN', audit)
if bad then return bad end
local record = redis.call('HGET', approvals, id)
local readable, request = pcall(cjson.decode, record or '')
if not record or not readable or type(request) ~= 'table' then return {0, ''} end

local from, to = unpack(({
  approve = {'open', 'approved'}, refuse = {'open', 'refused'}, withdraw = {'open', 'withdrawn'},
  lapse = {'open', 'lapsed'}, done = {'approved', 'done'}, failed = {'approved', 'failed'},
})[answer])
local asker, is_past = request.by or '', (tonumber(request['until']) or 0) <= now
local is_own = string.lower(asker) == string.lower(by) -- case does not matter in names of staff
local lapses = request.state == 'open' and is_past
if not lapses then
  if request.state ~= from or answer == 'lapse' then return {-1, record} end
  if (answer == 'approve' or answer == 'refuse') and is_own then return {-2, record} end
  if answer == 'withdraw' and not is_own then return {-3, record} end
  if from == 'approved' and request.answered_by ~= by then return {-3, record} end
end
local action, actor, said = answer .. '_request', by, word
if lapses then
  to, action, actor, said = 'lapsed', 'lapse_request', asker, ''
  request.answered_at = request['until']
elseif from == 'open' then
  request.answered_by, request.answered_at, request.word = by, ms(now), word
  for i = ARGS + 1, #ARGV, 2 do request[ARGV[i]] = ARGV[i + 1] end
else
  request.outcome = outcome
end
request.state = to
record = cjson.encode(request)

-- Nothing below can fail.
redis.call('HSET', approvals, id, record)
redis.call('EXPIRE', approvals, keep)
if to ~= 'done' then -- the bulk kick or the rule has an entry of its own
  local facts = type(request.facts) == 'string' and request.facts or '[]'
  if to == 'failed' then more_facts = write_facts({'request_failed', 'error', outcome}) end
  if (to == 'failed' or to == 'approved') and more_facts ~= '' then
    facts = string.sub(facts, 1, -2) .. ',' .. string.sub(more_facts, 2)
  end
  local filter = to == 'approved' and request.approved_filter
  if to == 'approved' and said == '' then said = request.approved_reason end
  write_audit_entry(audit, audit_cap, ms(now), actor, action, {reason = said, ticket = request.ticket},
                    'facts', facts, unpack(filter and {'filter', filter} or {}))
end
return {lapses and answer ~= 'lapse' and -1 or 1, record}
