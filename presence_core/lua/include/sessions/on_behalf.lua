-- A session on behalf of its user, by a member of staff: its id begins so, and no other session's does. Such a session
-- is in all lists, but it does not make its user online, and no limit counts or ends it.
local function is_on_behalf(sid) return string.byte(sid, 7) == 45 and string.sub(sid, 1, 7) == 'behalf-' end

-- Whether a user has a session of their own. `user.card`: how many of both kinds.
local function has_own_session(user)
  if user.card == 0 then return false end
  local sids = redis.pcall('SMEMBERS', user.live)
  for _, sid in ipairs(sids.err and {} or sids) do
    if not is_on_behalf(sid) then return true end
  end
  return false
end
