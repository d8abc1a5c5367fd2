#!lua
-- Notes what the user answered to a notice, once. "Not me" takes several steps, so it is reserved before them: of many
-- answers at once, one is carried out. The audit has an entry; that of "not me" was written with the end.
-- include: notices/stored_notices
-- include: staff/audit_entry
-- KEYS: 1 notices of the user 2 notice queue 3 audit
-- ARGV: 1 now|'' 2 audit cap 3 uid 4 id 5 session id 6 when the login was, ms 7 me|not_me|'' (release it)
--   8 when the link lapses, ms 9 of the call that reserves it|'' 10 for how many ms to reserve it|'' (note the answer)
-- returns: 1: done; 0: it was answered before, or is reserved by another call, or the link has lapsed
local notices, queue, audit = unpack(KEYS)
local given_now, audit_cap, uid, id, sid, at, answer, until_ms, call, lease = unpack(ARGV, 1, ARGS)
local now = clock(given_now)
local bad = foreign('HLEN', notices, 'ZCARD', queue, 'XLEN', audit)
if bad then return bad end
local stored, lapsed = read_stored(notices, now)
local notice = stored[id] or {sid = sid, at = at, kinds = {}, state = 'link', ['until'] = until_ms}
if notice.answer or now >= tonumber(until_ms) then return 0 end
if (notice.reserved_by or call) ~= call and now < (tonumber(notice.reserved_until) or 0) then return 0 end

-- Nothing below can fail.
notice['until'] = ms(math.max(tonumber(notice['until']), tonumber(until_ms)))
notice.reserved_by, notice.reserved_until = nil, nil
if lease ~= '' then
  notice.reserved_by, notice.reserved_until = call, ms(now + tonumber(lease))
elseif answer ~= '' then
  notice.answer = answer
  if notice.state == 'waiting' then notice.state = 'skipped' end -- a webhook had the link, too
end
if next(notice.kinds or {}) == nil then notice.kinds = nil end -- cjson would write an empty table as an object
stored[id] = notice
store_changed(notices, queue, uid, stored, {[id] = true}, lapsed)
if answer == 'me' then
  write_audit_entry(audit, audit_cap, ms(now), uid, 'confirm_login', {uid = uid, session = sid})
end
return 1
