#!lua flags=allow-oom
-- Members silent for longer than the window go, so many at once that nobody waits long.
-- include: seconds
-- KEYS: 1 last seen
-- ARGV: 1 now|'' 2 window 3 how many at most
-- returns: how many went
local stale = redis.call('ZCOUNT', KEYS[1], '-inf', '(' .. score(instant_of(ARGV[1]) - ARGV[2]))
if stale == 0 then return 0 end
return redis.call('ZREMRANGEBYRANK', KEYS[1], 0, math.min(stale, tonumber(ARGV[3])) - 1)
