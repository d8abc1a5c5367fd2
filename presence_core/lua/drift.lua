#!lua flags=no-writes
-- How far the facets of a shard are off: sessions that they count, less those that there are.
-- KEYS: 1 facets 2 sessions 3 closing (sessions whose tombstone is still to be written are counted yet) 4 recount
-- ARGV: none
-- returns: the difference; 1 where a recount was begun and is not done
if redis.call('EXISTS', KEYS[4]) == 1 then return 1 end
local counted, flat = 0, redis.call('HGETALL', KEYS[1])
for i = 1, #flat, 2 do
  local kind = string.byte(flat[i])
  if kind == 67 or kind == 99 then counted = counted + (tonumber(flat[i + 1]) or 0) end
end
return counted - redis.call('ZCARD', KEYS[2]) - redis.call('HLEN', KEYS[3])
