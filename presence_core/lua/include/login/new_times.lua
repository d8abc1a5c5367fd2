-- When a session begins whose id has no record. `given`: {login, seen: ms, of an imported session, or ''; idle,
-- absolute: s}. Returns login and last seen, ms; nil if it would be past its deadline.
local function new_times(now, given, revoked, floor)
  local login, seen = now, now
  if given.login == '' then
    login = math.max(login, revoked + 1, floor) -- after a revoke_before, or the question of a bulk kick, in the same ms
  else
    login = math.min(now, tonumber(given.login))
    seen = math.max(login, math.min(now, tonumber(given.seen)))
  end
  if math.min(seen + given.idle * 1000, login + given.absolute * 1000) > now and login > revoked then
    return login, seen
  end
end
