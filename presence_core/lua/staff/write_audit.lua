#!lua flags=allow-oom
-- Writes an audit entry for an action that changes neither session nor block, such as an export.
-- include: clock
-- include: sessions/end_session
-- include: staff/audit_entry
-- KEYS: 1 audit
-- ARGV: 1 now|'' 2 audit cap 3 by 4 what 5 uid|'' 6 reason|'' 7 outcome|''
-- returns: 1
local audit, given_now, cap, by, action, uid, reason, outcome = KEYS[1], unpack(ARGV)
local now = clock(given_now)
local bad = foreign('XLEN', audit)
if bad then return bad end

-- Nothing below can fail.
write_audit_entry(audit, cap, ms(now), by, action, {uid = uid, reason = reason}, 'outcome', outcome)
return 1
