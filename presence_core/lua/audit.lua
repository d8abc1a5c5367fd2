#!lua flags=no-writes
-- What staff did on this shard, newest first, from a position in its stream.
-- include: time
-- include: ending
-- KEYS: 1 audit
-- ARGV: 1 now|'' 2 how many 3 position: an id, which is the first to be answered; "(" and an id, which is not; "+"
-- returns: {now, how many entries there are, {{id, {field, value, …}}, …}}
local bad = foreign('XLEN', KEYS[1])
if bad then return bad end
return {clock(ARGV[1]), redis.call('XLEN', KEYS[1]), redis.call('XREVRANGE', KEYS[1], ARGV[3], '-', 'COUNT', ARGV[2])}
