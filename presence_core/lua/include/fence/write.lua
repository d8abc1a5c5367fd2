-- For scripts that write: refused while the shard is frozen, before anything is written, and once it has moved.
-- include: fence/state
-- include: fence/changes
if FENCE_STATE then return redis.error_reply('LAYOUT ' .. FENCE_STATE) end
