#!lua flags=allow-oom
-- What a mover removes from a shard that is closed to others; nothing where the shard is another mover's by now, or in
-- use again.
-- KEYS: 1 moved 2… keys
-- ARGV: 1 token
-- returns: 1, or 0: the shard is not this mover's
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then return 0 end
redis.call('UNLINK', unpack(KEYS, 2))
return 1
