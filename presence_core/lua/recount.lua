#!lua flags=allow-oom
-- Begins counting facets anew, or puts the new counters in the place of the old ones when every session is in them.
-- KEYS: 1 sessions 2 closing 3 facets 4 recount 5 counted 6 meta (where logins see that it is on)
-- ARGV: 1 begin|end
-- returns: 1 when it did; 0 when a recount is under way already, or not all are counted yet
redis.call('SCARD', KEYS[5])
redis.call('HLEN', KEYS[4])
if ARGV[1] == 'begin' then
  redis.call('HSET', KEYS[6], 'recount', 1)
  if redis.call('EXISTS', KEYS[4]) == 1 then return 0 end
  redis.call('UNLINK', KEYS[5])
  redis.call('HSET', KEYS[4], '-', string.rep(' ', 65)) -- see include/facets.lua
  return 1
end
if redis.call('EXISTS', KEYS[4]) == 0 then return 1 end -- another has ended it
if redis.call('HLEN', KEYS[2]) > 0 or redis.call('ZCARD', KEYS[1]) ~= redis.call('SCARD', KEYS[5]) then return 0 end
redis.call('HDEL', KEYS[6], 'recount')
redis.call('UNLINK', KEYS[3], KEYS[5])
if redis.call('HLEN', KEYS[4]) > 1 then redis.call('RENAME', KEYS[4], KEYS[3]) else redis.call('UNLINK', KEYS[4]) end
return 1
