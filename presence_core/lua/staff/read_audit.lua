#!lua flags=no-writes
-- Audit entries of this shard, newest first, from a position in its stream.
-- include: clock
-- include: sessions/end_session
-- KEYS: 1 audit
-- ARGV: 1 now|'' 2 how many 3 position: "+", the id of the first entry, or "(" and the id of the entry before it
-- returns: {now, how many entries there are, {{id, {field, value, …}}, …}}
local audit, given_now, limit, position = KEYS[1], unpack(ARGV)
local bad = foreign('XLEN', audit)
if bad then return bad end
return {clock(given_now), redis.call('XLEN', audit), redis.call('XREVRANGE', audit, position, '-', 'COUNT', limit)}
