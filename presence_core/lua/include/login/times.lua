-- When a session begins, or that it may not begin.
-- include: sessions/confirmed_clock
-- include: sessions/session_record

-- `given`: {login, seen: ms, of an imported session, or ''; idle, absolute: s}. `old`: RECORD_FIELDS of the record that
-- is there, or {}. Returns the reply that refuses the login, or nil; and login, seen, idle, absolute, is_repeat.
local function login_times(k, now, ref, old, given, revoked, floor)
  local login, seen, idle, absolute = now, now, tonumber(given.idle), tonumber(given.absolute)
  if given.login == '' then
    login = math.max(login, revoked + 1, floor) -- after a revoke_before, or the question of a bulk kick, in the same ms
  else
    login = math.min(now, tonumber(given.login))
    seen = math.max(login, math.min(now, tonumber(given.seen)))
  end
  if not old[2] then
    if math.min(seen + idle * 1000, login + absolute * 1000) <= now or login <= revoked then return {'expired'} end
    return nil, login, seen, idle, absolute, false
  end
  local deadline, began = deadline_of(tonumber(old[1]), old[2])
  if old[3] or not redis.call('ZSCORE', k.sessions, ref) or began <= revoked then return {'ended'} end
  if now >= deadline then return clock_is_confirmed(now, k.meta) and {'ended', 1} or {'ended'} end
  -- The same login again: it keeps its login time and timeouts, and skips the limits.
  login, idle, absolute = struct.unpack('>I8I4I4', old[2])
  return nil, login, math.max(seen, tonumber(old[1])), idle, absolute, true
end
