#!lua flags=no-writes
-- One shard's part of a list by time, newest first, from just behind a position: who is blocked, what has ended.
-- include: time
-- include: ending
-- include: place
-- KEYS: 1 the list
-- ARGV: 1 now|'' 2 how many 3 position's time, ms 4 position's member 5 none before this time, ms 6 nor from this on
-- returns: {now, how many there are between these times, {member, time, …}}
local list, first, last = KEYS[1], ARGV[5], '(' .. ARGV[6]
local bad = foreign('ZCARD', list)
if bad then return bad end
local start = place_behind(list, ARGV[3], ARGV[4])
local stop = math.min(start + tonumber(ARGV[2]), redis.call('ZCOUNT', list, first, '+inf'))
local out = {}
if stop > start then out = redis.call('ZREVRANGE', list, start, stop - 1, 'WITHSCORES') end
return {clock(ARGV[1]), redis.call('ZCOUNT', list, first, last), out}
