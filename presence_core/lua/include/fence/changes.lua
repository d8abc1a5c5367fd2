-- While the shard is copied, every script that writes notes its keys in the fence, with the number of this change. The
-- copier copies them again.
if FENCE_STATE == 'copying' then
  local noted, change = {}, redis.call('HINCRBY', FENCE, 'changes', 1)
  for _, key in ipairs(KEYS) do
    if string.find(key, '^{[^}]*}:%l+:') then
      noted[#noted + 1], noted[#noted + 2] = key, change
    end
  end
  for i = 1, #noted, 1000 do redis.call('HSET', FENCE, unpack(noted, i, math.min(i + 999, #noted))) end
  FENCE_STATE = nil
end
