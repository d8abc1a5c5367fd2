-- How many sessions of a shard are live, while a revoke_before may still be draining. `revoked`: its watermark, or
-- false.
-- include: clock
local MAX_DUE = 1000

-- Of sessions past their deadline that no sweep has ended yet: how many `counts` returns true for, given the login
-- time; and whether that is all of them.
local function count_due(now, sessions, deadlines, counts)
  local number = 0
  local due = redis.call('ZRANGE', deadlines, '-inf', ms(now), 'BYSCORE', 'LIMIT', 0, MAX_DUE)
  for _, login in ipairs(#due > 0 and redis.call('ZMSCORE', sessions, unpack(due)) or {}) do
    if login and counts(tonumber(login)) then number = number + 1 end
  end
  return number, #due
end

-- Returns the number, whether a drain is going on, and whether the number is exact. During a drain it is exact where
-- fewer than MAX_DUE other sessions are past their deadline; else it is at most too high.
local function live_sessions(now, sessions, deadlines, revoked)
  local live = redis.call('ZCOUNT', deadlines, '(' .. ms(now), '+inf')
  if not revoked or redis.call('ZCOUNT', sessions, '-inf', revoked) == 0 then return live, false, true end
  local left = redis.call('ZCOUNT', sessions, '(' .. revoked, '+inf')
  local over, due = count_due(now, sessions, deadlines, function(login) return login > tonumber(revoked) end)
  return math.min(live, left - over), true, due < MAX_DUE
end
