-- For scripts that write only while FENCE_STATE is unset: refused once the shard has moved.
-- include: fence/state
-- include: fence/changes
if FENCE_STATE and FENCE_STATE ~= 'frozen' then return redis.error_reply('LAYOUT ' .. FENCE_STATE) end
