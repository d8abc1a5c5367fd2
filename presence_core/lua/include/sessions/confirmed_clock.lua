-- Whether a worker has found this shard's clock right, a short while ago by that clock (maintenance/confirm_clock.lua).
-- Only then may a read end a session that is past its deadline: the end is final, and a clock that jumped must end no
-- active visitor's session.
local function clock_is_confirmed(now, meta)
  local times = redis.call('HMGET', meta, 'good_from', 'good_until')
  local from, till = tonumber(times[1] or ''), tonumber(times[2] or '')
  return from and till and from <= now and now <= till
end
