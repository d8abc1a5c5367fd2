#!lua flags=allow-oom
-- Writes an audit entry for an action that changes neither session nor block, such as an export.
-- include: clock
-- include: sessions/end_session
-- include: staff/audit_entry
-- KEYS: 1 audit
-- ARGV: 1 now|'' 2 audit cap 3 by 4 what 5 uid|'' 6 reason|'' 7 outcome|'' 8 facts, JSON|''
--       9 filter of sessions, JSON|''
-- returns: 1
local audit = KEYS[1]
local given_now, audit_cap, by, action, uid, reason, outcome, facts, filter = unpack(ARGV, 1, ARGS)
local now = clock(given_now)
local bad = foreign('XLEN', audit)
if bad then return bad end

-- Nothing below can fail.
write_audit_entry(audit, audit_cap, ms(now), by, action, {uid = uid, reason = reason}, 'outcome', outcome,
                  'facts', facts, unpack(filter ~= '' and {'filter', filter} or {}))
return 1
