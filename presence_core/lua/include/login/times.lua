-- When a session begins, or that it may not begin.
-- include: sessions/confirmed_clock
-- include: sessions/session_record
-- include: login/new_times

-- `given`: as new_times gets it. `old`: the row of the record that is there, or {}. Returns the reply that
-- refuses the login, or nil; and login, seen, idle, absolute, is_repeat.
local function login_times(k, now, ref, old, given, revoked, floor)
  if not old[R.core] then
    local login, seen, absolute = new_times(now, given, revoked, floor)
    if not login then return {'expired'} end
    return nil, login, seen, math.min(given.idle, absolute), absolute, false
  end
  local deadline, began = deadline_of(tonumber(old[R.seen]), old[R.core])
  if old[R.end_reason] or not redis.call('ZSCORE', k.sessions, ref) or began <= revoked then return {'ended'} end
  if now >= deadline then return clock_is_confirmed(now, k.meta) and {'ended', 1} or {'ended'} end
  -- The same login again: it keeps its login time and timeouts, and skips the limits.
  local seen = given.login == '' and now or math.min(now, math.max(tonumber(given.login), tonumber(given.seen)))
  local login, idle, absolute = struct.unpack('>I8I4I4', old[R.core])
  return nil, login, math.max(seen, tonumber(old[R.seen])), idle, absolute, true
end
