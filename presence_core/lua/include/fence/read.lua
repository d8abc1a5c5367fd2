-- For scripts that only read: refused once the shard has moved.
-- include: fence/state
if FENCE_STATE and FENCE_STATE ~= 'copying' and FENCE_STATE ~= 'frozen' then
  return redis.error_reply('LAYOUT ' .. FENCE_STATE)
end
