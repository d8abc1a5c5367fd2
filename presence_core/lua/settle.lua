#!lua flags=allow-oom
-- Changes that a mover has copied are forgotten, but for keys that have changed again since it read of them.
-- KEYS: 1 moved
-- ARGV: 1 token 2… for each: the key, and which change it was
-- returns: 1, or 0: the shard is not this mover's
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then return 0 end
for i = 2, #ARGV, 2 do
  if redis.call('HGET', KEYS[1], ARGV[i]) == ARGV[i + 1] then redis.call('HDEL', KEYS[1], ARGV[i]) end
end
return 1
