#!lua flags=allow-oom
-- The leading worker compares this shard's clock with its own. While both move alike, it confirms the shard's clock for
-- a short time: include/sessions/confirmed_clock.lua reads that.
-- include: clock
-- KEYS: 1 meta
-- ARGV: 1 now|'' 2 the worker's clock, ms 3 how far the two may be apart, ms 4 for how long it is confirmed, ms; 0:
--       from now on it is not, and nothing is compared 5 1: the clock as it is now is right
-- returns: by how many ms the shard's clock moved more than the worker's since they last agreed
local meta = KEYS[1]
local given_now, worker_clock, limit, confirm_ms, accept = unpack(ARGV)
local now = clock(given_now)
local good_from, good_wall = unpack(redis.call('HMGET', meta, 'good_from', 'good_wall'))
good_from, good_wall = tonumber(good_from or ''), tonumber(good_wall or '')
local drift = 0
if accept ~= '1' and good_from and good_wall then drift = (now - good_from) - (tonumber(worker_clock) - good_wall) end
if tonumber(confirm_ms) == 0 or math.abs(drift) > tonumber(limit) then
  redis.call('HSET', meta, 'good_until', '0')
else
  redis.call('HSET', meta, 'good_from', ms(now), 'good_wall', worker_clock, 'good_until', ms(now + confirm_ms))
end
return drift
