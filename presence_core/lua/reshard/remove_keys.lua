#!lua flags=allow-oom
-- Removes keys of a shard that other processes do not use. None where another coordinator has claimed the shard by now,
-- or it is in use again.
-- KEYS: 1 moved 2… keys
-- ARGV: 1 token
-- returns: 1, or 0: another coordinator has claimed the shard
local fence, token = KEYS[1], ARGV[1]
if redis.call('HGET', fence, 'token') ~= token then return 0 end
redis.call('UNLINK', unpack(KEYS, 2))
return 1
