-- When a session begins whose id has no record. `given`: {login, seen: ms, of an imported session, or ''; idle,
-- absolute: s; idp_end: ms at which the identity provider ends it, or ''}. Returns login and last seen, ms, and the
-- absolute timeout, s, which ends it by then; nil if it would be past its deadline.
local function new_times(now, given, revoked, floor)
  local login, seen = now, now
  if given.login == '' then
    login = math.max(login, revoked + 1, floor) -- after a revoke_before, or the question of a bulk kick, in the same ms
  else
    login = math.min(now, tonumber(given.login))
    seen = math.max(login, math.min(now, tonumber(given.seen)))
  end
  local absolute = given.absolute
  if given.idp_end ~= '' then
    absolute = math.min(absolute, math.floor((tonumber(given.idp_end) - login) / 1000))
  end
  if math.min(seen + given.idle * 1000, login + absolute * 1000) > now and login > revoked then
    return login, seen, absolute
  end
end
