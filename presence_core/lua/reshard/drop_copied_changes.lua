#!lua flags=allow-oom
-- Removes noted changes that the copier has copied, except for keys that have changed again since it read the note.
-- KEYS: 1 moved
-- ARGV: 1 token 2… for each: the key, and the number of its change
-- returns: 1, or 0: another coordinator has claimed the shard
local fence, token = KEYS[1], ARGV[1]
if redis.call('HGET', fence, 'token') ~= token then return 0 end
for i = 2, #ARGV, 2 do
  local key, change = ARGV[i], ARGV[i + 1]
  if redis.call('HGET', fence, key) == change then redis.call('HDEL', fence, key) end
end
return 1
