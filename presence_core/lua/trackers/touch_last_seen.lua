#!lua
-- R1: note that a member was seen, remove members who were not seen within the window, and count the rest, in one step.
-- A time that the caller gives may be late and never lowers a score; the server's clock replaces even a score in the
-- future.
-- include: trackers/clock_seconds
-- KEYS: 1 last seen (ZSET: member → Unix seconds)
-- ARGV: 1 now|'' 2 window, seconds 3 member 4 how many to remove, at most
-- returns: members inside the window
local list = KEYS[1]
local given, window, member, most = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local now = clock_seconds(given)
local low = score(now - window)
if given ~= '' then
  redis.call('ZADD', list, 'GT', given, member)
else
  redis.call('ZADD', list, score(now), member)
end
local stale = most > 0 and math.min(most, redis.call('ZCOUNT', list, '-inf', '(' .. low)) or 0
if stale > 0 then redis.call('ZREMRANGEBYRANK', list, 0, stale - 1) end
return redis.call('ZCOUNT', list, low, score(now))
