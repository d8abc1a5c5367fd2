#!lua flags=allow-oom
-- Puts values of a HASH in other words, or under another name, where they are still as they were read.
-- KEYS: 1 the HASH
-- ARGV: for each value: field, value as it was read, field from now on, value from now on
-- returns: how many were
local changed = 0
for i = 1, #ARGV, 4 do
  if redis.call('HGET', KEYS[1], ARGV[i]) == ARGV[i + 1] then
    if ARGV[i + 2] ~= ARGV[i] then redis.call('HDEL', KEYS[1], ARGV[i]) end
    redis.call('HSET', KEYS[1], ARGV[i + 2], ARGV[i + 3])
    changed = changed + 1
  end
end
return changed
