#!lua
-- Notes what the user answered to a notice, once. The audit has an entry; that of "not me" was written with the end.
-- include: notices/stored_notices
-- include: staff/audit_entry
-- KEYS: 1 notices of the user 2 notice queue 3 audit
-- ARGV: 1 now|'' 2 audit cap 3 uid 4 id 5 session id 6 when the login was, ms 7 me|not_me
--   8 when the link lapses, ms
-- returns: 1: noted; 0: it was answered before, or the link has lapsed
local notices, queue, audit = unpack(KEYS)
local given_now, audit_cap, uid, id, sid, at, answer, until_ms = unpack(ARGV, 1, ARGS)
local now = clock(given_now)
local bad = foreign('HLEN', notices, 'ZCARD', queue, 'XLEN', audit)
if bad then return bad end
local stored, lapsed = read_stored(notices, now)
local notice = stored[id] or {sid = sid, at = at, kinds = {}, state = 'link', ['until'] = until_ms}
if notice.answer or now >= tonumber(until_ms) then return 0 end

-- Nothing below can fail.
notice.answer, notice['until'] = answer, ms(math.max(tonumber(notice['until']), tonumber(until_ms)))
if notice.state == 'waiting' then notice.state = 'skipped' end -- a webhook had the link, too
if next(notice.kinds) == nil then notice.kinds = nil end -- cjson would write an empty table as an object
stored[id] = notice
store_changed(notices, queue, uid, stored, {[id] = true}, lapsed)
if answer == 'me' then
  write_audit_entry(audit, audit_cap, ms(now), uid, 'confirm_login', {uid = uid, session = sid})
end
return 1
