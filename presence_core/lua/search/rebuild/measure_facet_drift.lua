#!lua flags=no-writes
-- How wrong the facets of a shard are: counted sessions minus listed sessions.
-- KEYS: 1 facets 2 sessions 3 closing (facets still count sessions whose tombstone is to be written) 4 recount
-- ARGV: none
-- returns: the difference; 1 where a recount was begun and has not ended
local facets, sessions, closing, recount = unpack(KEYS)
if redis.call('EXISTS', recount) == 1 then return 1 end
local counted, flat = 0, redis.call('HGETALL', facets)
for i = 1, #flat, 2 do
  if string.find(flat[i], '^[cC]') then counted = counted + (tonumber(flat[i + 1]) or 0) end
end
return counted - redis.call('ZCARD', sessions) - redis.call('HLEN', closing)
