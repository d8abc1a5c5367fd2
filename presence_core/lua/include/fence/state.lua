-- The head of every script on a shard. The shard's fence is the last key (operations/reshard/coordinator.py); its state
-- is 'copying' while the shard is copied to another layout, 'frozen' for the last step of the copy, and another word
-- once the data has moved. It is false, or nil, where this script may write.
local FENCE = table.remove(KEYS)
local FENCE_STATE = redis.call('HGET', FENCE, 'state')
