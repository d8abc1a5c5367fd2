#!lua flags=allow-oom
-- Staff require a new sign-in of sessions of one user. They stay in the lists and keep their deadlines, but
-- sessions/validate.lua refuses them until sessions/rotate_secret.lua has noted a new authentication.
-- include: sessions/session_state
-- include: sessions/authentication
-- include: staff/audit_entry
-- include: staff/kept_text
-- KEYS: 1 sessions 2 closing 3 meta 4 events 5 audit 6 message 7… the record of each session
-- ARGV: 1 now|'' 2 most events 3 most audit entries 4 uid 5 by 6 reason 7 message id|'' 8 message 9 ticket|''
--       10 session id|'' (of the audit entry) 11 ms|'' (now): when it was required; given where a failover may have
--       lost it: then sessions that authenticated since are left 12… sids
-- returns: {ms when it is required, {sids of the live sessions among them}}
local sessions, closing, meta, events, audit, message_key = unpack(KEYS, 1, 6)
local given_now, max_events, max_audit, uid, by, reason, message_id, message, ticket, session, given_at =
  unpack(ARGV, 1, ARGS)
local now = clock(given_now)
local at, is_again, longest, found = now, given_at ~= '', 0, {}
if is_again then at = tonumber(given_at) end
redis.call('XLEN', events)
redis.call('XLEN', audit)

-- Whether a session has this demand, a later one, or an answer to it.
local function is_settled(core, authentication, demand)
  local authenticated = authenticated_at(core, authentication)
  return demand and demanded_at(demand) >= at or authenticated > at and authenticated ~= login_of(core)
end

for i = ARGS + 1, #ARGV do
  local sid, record = ARGV[i], KEYS[6 + i - ARGS]
  local ref = uid .. ':' .. sid
  local state, row = state_of(now, sessions, closing, meta, ref, record)
  if state == LIVE and not (is_again and is_settled(row[R.core], row[R.authentication], row[R.demand])) then
    found[#found + 1] = sid
    local login, _, absolute = struct.unpack('>I8I4I4', row[R.core])
    longest = math.max(longest, math.ceil((login - now) / 1000) + absolute)
    redis.call('HSET', record, 'q', struct.pack('>I8', at) .. message_id)
    redis.call('XADD', events, 'MAXLEN', '~', max_events, '*', 'k', 'sign_in_required', 'r', ref, 'a', ms(at))
  end
end
if #found > 0 then
  keep_text(message_key, message_id, message, longest)
  redis.call('HSET', meta, 'demanded', ms(math.max(now, tonumber(redis.call('HGET', meta, 'demanded') or 0))))
end
if #found > 0 or not is_again then
  write_audit_entry(audit, max_audit, ms(now), by, 'require_sign_in', {uid = uid, session = session, reason = reason,
    message = message, ticket = ticket}, 'demanded', #found)
end
return {at, found}
