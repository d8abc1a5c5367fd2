#!lua flags=allow-oom
-- Removes audit entries that are older than they are to be kept.
-- include: clock
-- include: sessions/end_session
-- KEYS: 1 audit
-- ARGV: 1 now|'' 2 seconds that an entry is kept
-- returns: how many entries were removed
local audit, given_now, keep = KEYS[1], unpack(ARGV)
local bad = foreign('XLEN', audit)
if bad then return bad end
local oldest = ms(math.max(0, clock(given_now) - tonumber(keep) * 1000))
local removed = redis.call('XTRIM', audit, 'MINID', '~', oldest, 'LIMIT', 10000) -- whole nodes, cheap
if removed < 5000 then -- at most a part of one node is left; otherwise the next sweep goes on
  removed = removed + redis.call('XTRIM', audit, 'MINID', '=', oldest)
end
return removed
