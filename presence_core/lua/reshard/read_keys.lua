#!lua flags=no-writes
-- Reads keys that are copied as they are.
-- KEYS: 1 moved, which names the shard 2… keys
-- ARGV: 1 a digit for each key: 1 where it is the record of a session
-- returns: {payload of DUMP|nil, when it expires (ms, -1: never, -2: the key is gone), {fields c, en, em and q of a
--          record}|nil, of each key}
local is_record, found, n = ARGV[1], {}, 0
for i = 2, #KEYS do
  local key = KEYS[i]
  local links = string.byte(is_record, i - 1) == 49 and redis.pcall('HMGET', key, 'c', 'en', 'em', 'q')
  found[n + 1], found[n + 2] = redis.call('DUMP', key), redis.call('PEXPIRETIME', key)
  found[n + 3] = links and not links.err and links
  n = n + 3
end
return found
