-- Write one audit entry; the caller has checked that `audit` is a stream. `at` is ms. `fields` holds any of uid,
-- session, reason, message and ticket; a field that is missing, or false, is stored as ''. Further names and values go
-- last.
local function write_audit_entry(audit, cap, at, by, action, fields, ...)
  redis.call('XADD', audit, 'MAXLEN', '~', cap, '*', 'at', at, 'by', by, 'what', action, 'uid', fields.uid or '',
             'session', fields.session or '', 'reason', fields.reason or '', 'message', fields.message or '',
             'ticket', fields.ticket or '', ...)
end
