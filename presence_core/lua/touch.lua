#!lua
-- R1: a member was seen; who has been silent for longer than the window goes; how many are left, in one step. A clock of
-- the caller's may be late and never takes a score back; the server's own replaces even what lies in the future.
-- include: seconds
-- KEYS: 1 last seen (ZSET: member → Unix seconds)
-- ARGV: 1 now|'' 2 window 3 member 4 how many may go at once
-- returns: members inside the window
local key, now = KEYS[1], instant_of(ARGV[1])
local low = score(now - ARGV[2])
if ARGV[1] ~= '' then
  redis.call('ZADD', key, 'GT', ARGV[1], ARGV[3])
else
  redis.call('ZADD', key, score(now), ARGV[3])
end
local most = tonumber(ARGV[4])
local stale = most > 0 and math.min(most, redis.call('ZCOUNT', key, '-inf', '(' .. low)) or 0
if stale > 0 then redis.call('ZREMRANGEBYRANK', key, 0, stale - 1) end
return redis.call('ZCOUNT', key, low, score(now))
