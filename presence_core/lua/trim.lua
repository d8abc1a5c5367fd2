#!lua flags=allow-oom
-- Forgets what staff did longer ago than it is to be kept.
-- include: time
-- include: ending
-- KEYS: 1 audit
-- ARGV: 1 now|'' 2 seconds
-- returns: how many entries were forgotten
local bad = foreign('XLEN', KEYS[1])
if bad then return bad end
local oldest = ms(math.max(0, clock(ARGV[1]) - tonumber(ARGV[2]) * 1000))
local forgotten = redis.call('XTRIM', KEYS[1], 'MINID', '~', oldest, 'LIMIT', 10000) -- whole nodes, cheap
if forgotten < 5000 then -- no more than a part of one node is left; else the next sweep goes on
  forgotten = forgotten + redis.call('XTRIM', KEYS[1], 'MINID', '=', oldest)
end
return forgotten
