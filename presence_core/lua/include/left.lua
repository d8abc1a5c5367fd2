-- How many of a shard's sessions are live, and whether a sign-everybody-out is still being drained. While it is, the
-- number is exact where less than a thousand others are past their deadline, too; else at most what is left.
-- Answers the number, whether it is being drained, whether the number is exact.
local function live_sessions(now, sessions, deadlines, revoked)
  local live = redis.call('ZCOUNT', deadlines, '(' .. ms(now), '+inf')
  if not revoked or redis.call('ZCOUNT', sessions, '-inf', revoked) == 0 then return live, false, true end
  local left = redis.call('ZCOUNT', sessions, '(' .. revoked, '+inf')
  local due = redis.call('ZRANGE', deadlines, '-inf', ms(now), 'BYSCORE', 'LIMIT', 0, 1000)
  for _, login in ipairs(#due > 0 and redis.call('ZMSCORE', sessions, unpack(due)) or {}) do
    if login and tonumber(login) > tonumber(revoked) then left = left - 1 end
  end
  return math.min(live, left), true, #due < 1000
end
