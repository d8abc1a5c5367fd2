-- For scripts that remove what a copy would keep: refused also while the shard is copied.
-- include: fence/state
if FENCE_STATE then return redis.error_reply('LAYOUT ' .. (FENCE_STATE == 'copying' and 'frozen' or FENCE_STATE)) end
