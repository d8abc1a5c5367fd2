-- A session on behalf of its user, by a member of staff: its id begins so, and no other session's does. Such a session
-- is in all lists, but it does not make its user online, and no limit counts or ends it.
-- `before`: how many characters of `sid` are in front of the id, if it is a ref.
local function is_on_behalf(sid, before)
  local first = (before or 0) + 1
  return string.byte(sid, first + 6) == 45 and string.sub(sid, first, first + 6) == 'behalf-'
end

-- A user has at most so many at a time: scripts read all sessions of a user.
local MAX_ON_BEHALF = 100

-- Whether a user has as many as they may, without those past their deadline. `user.card`: how many of both kinds.
local function has_most_on_behalf(k, user, now)
  if user.card < MAX_ON_BEHALF then return false end
  local number = 0
  for _, sid in ipairs(redis.call('SMEMBERS', user.live)) do
    local deadline = is_on_behalf(sid) and redis.call('ZSCORE', k.deadlines, user.uid .. ':' .. sid)
    if deadline and tonumber(deadline) > now then number = number + 1 end
  end
  return number >= MAX_ON_BEHALF
end

-- Whether a user has a session of their own. `user.card`: how many of both kinds. Reads at most 100 ids: a sweep asks
-- for hundreds of users in one call.
local function has_own_session(user)
  if user.card == 0 or user.card > MAX_ON_BEHALF then return user.card > 0 end
  local sids = redis.pcall('SMEMBERS', user.live)
  for _, sid in ipairs(sids.err and {} or sids) do
    if not is_on_behalf(sid) then return true end
  end
  return false
end
