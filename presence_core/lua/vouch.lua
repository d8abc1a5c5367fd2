#!lua flags=allow-oom
-- The leading worker compares this shard's clock with its own. While the two move alike it says so, for a short while to
-- come by the shard's clock: include/vouched.lua.
-- include: time
-- KEYS: 1 meta
-- ARGV: 1 now|'' 2 the worker's clock, ms 3 how far the two may be off, ms 4 for how long it holds, ms; 0: from now on it
--       does not hold, and nothing is compared 5 1: the clock as it is now is right
-- returns: by how many ms the shard's clock moved more than the worker's since they were last compared and in order
local now, own, hold = clock(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[4])
local row = redis.call('HMGET', KEYS[1], 'good_from', 'good_wall')
local from, wall = tonumber(row[1] or ''), tonumber(row[2] or '')
local off = ARGV[5] ~= '1' and from and wall and (now - from) - (own - wall) or 0
if hold == 0 or math.abs(off) > tonumber(ARGV[3]) then
  redis.call('HSET', KEYS[1], 'good_until', '0')
else
  redis.call('HSET', KEYS[1], 'good_from', ms(now), 'good_wall', ARGV[2], 'good_until', ms(now + hold))
end
return off
