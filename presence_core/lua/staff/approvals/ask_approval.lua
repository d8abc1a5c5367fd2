#!lua flags=allow-oom
-- Writes a request that a second person must approve. Sent again, it changes nothing.
-- include: clock
-- include: key_types
-- include: staff/audit_entry
-- KEYS: 1 approvals 2 audit
-- ARGV: 1 now|'' 2 audit cap 3 id 4 by 5 reason 6 message|'' 7 ticket|'' 8 uid|'' that the filter names 9 ms until it
--   lapses 10 open requests, at most 11 of them by one person 12 answered requests, at most 13 ms that they are kept
--   14 seconds that the key is kept 15 facts for the audit, JSON 16… field, value: the rest of the request
-- returns: {1: written; 0: it was there already; -1: too many are open; -2: too many of this person, the request}
-- A request is JSON: fields with texts, also of numbers and times (ms). Its field in the HASH is its id.
local approvals, audit = unpack(KEYS)
local given_now, audit_cap, id, by, reason, message, ticket, uid, lapse, most_open, most_own, most_answered,
  keep_answered, keep, facts = unpack(ARGV, 1, ARGS)
local now = clock(given_now)
local bad = foreign('HLEN', approvals, 'XLEN', audit)
if bad then return bad end
local stored = redis.call('HGETALL', approvals)

local open, own, answered, gone = 0, 0, {}, {}
for i = 1, #stored, 2 do
  local readable, request = pcall(cjson.decode, stored[i + 1])
  if stored[i] == id then return {0, stored[i + 1]} end
  if not readable or type(request) ~= 'table' then
    gone[#gone + 1] = stored[i] -- damaged: no one can answer it
  elseif request.state == 'open' and (tonumber(request['until']) or 0) > now then
    open = open + 1
    if string.lower(request.by or '') == string.lower(by) then own = own + 1 end
  else
    answered[#answered + 1] = {tonumber(request.answered_at) or tonumber(request['until']) or 0, stored[i]}
  end
end
if open >= tonumber(most_open) then return {-1, ''} end
if own >= tonumber(most_own) then return {-2, ''} end
table.sort(answered, function(a, b) return a[1] > b[1] end)
for place, request in ipairs(answered) do
  if place > tonumber(most_answered) or request[1] < now - keep_answered then gone[#gone + 1] = request[2] end
end
local request = {
  by = by, reason = reason, message = message, ticket = ticket, at = ms(now), ['until'] = ms(now + lapse),
  state = 'open', facts = facts,
}
for i = ARGS + 1, #ARGV, 2 do request[ARGV[i]] = ARGV[i + 1] end
local record, filter = cjson.encode(request), request.filter or request.timeouts_filter

-- Nothing below can fail.
if #gone > 0 then redis.call('HDEL', approvals, unpack(gone)) end
redis.call('HSET', approvals, id, record)
redis.call('EXPIRE', approvals, keep)
write_audit_entry(audit, audit_cap, ms(now), by, 'ask_approval',
                  {uid = uid, reason = reason, message = message, ticket = ticket},
                  'facts', facts, unpack(filter and {'filter', filter} or {}))
return {1, record}
