#!lua flags=allow-oom
-- Remove members who were not seen within the window, so many at once that no other call waits long.
-- include: trackers/clock_seconds
-- KEYS: 1 last seen
-- ARGV: 1 now|'' 2 window, seconds 3 how many at most
-- returns: how many were removed
local list, now, window, most = KEYS[1], clock_seconds(ARGV[1]), ARGV[2], tonumber(ARGV[3])
local stale = redis.call('ZCOUNT', list, '-inf', '(' .. score(now - window))
if stale == 0 then return 0 end
return redis.call('ZREMRANGEBYRANK', list, 0, math.min(stale, most) - 1)
