#!lua flags=allow-oom
-- Rewrites fields of a HASH, name and value, where they are still as they were read.
-- KEYS: 1 the HASH
-- ARGV: for each field: name and value as they were read, new name, new value
-- returns: how many were rewritten
local hash, changed = KEYS[1], 0
for i = 1, #ARGV, 4 do
  local name, value, new_name, new_value = unpack(ARGV, i, i + 3)
  if redis.call('HGET', hash, name) == value then
    if new_name ~= name then redis.call('HDEL', hash, name) end
    redis.call('HSET', hash, new_name, new_value)
    changed = changed + 1
  end
end
return changed
