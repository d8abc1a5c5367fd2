#!lua flags=allow-oom
-- Begins counting facets anew, or puts the new counters in the place of the old ones when every session is in them.
-- KEYS: 1 sessions 2 closing 3 facets 4 recount 5 counted 6 meta (where logins see that it is on)
-- ARGV: 1 begin|anew|end (anew: what an interrupted one has counted is not to be trusted)
-- returns: 1 when it did; 0 when a recount is under way already, or not all are counted yet
redis.call('SCARD', KEYS[5])
redis.call('HLEN', KEYS[4])
if ARGV[1] ~= 'end' then
  local unheard = redis.call('HSET', KEYS[6], 'recount', 1) == 1 -- `meta` was lost: logins went by uncounted
  if ARGV[1] == 'begin' and not unheard and redis.call('EXISTS', KEYS[4]) == 1 then return 0 end
  redis.call('UNLINK', KEYS[4], KEYS[5])
  redis.call('HSET', KEYS[4], '-', string.rep(' ', 65)) -- see include/facets.lua
  return 1
end
if redis.call('EXISTS', KEYS[4]) == 0 then -- another has ended it; or it was lost
  redis.call('HDEL', KEYS[6], 'recount')
  redis.call('UNLINK', KEYS[5])
  return 1
end
if redis.call('HLEN', KEYS[2]) > 0 or redis.call('ZCARD', KEYS[1]) ~= redis.call('SCARD', KEYS[5]) then return 0 end
redis.call('HDEL', KEYS[6], 'recount')
redis.call('UNLINK', KEYS[3], KEYS[5])
if redis.call('HLEN', KEYS[4]) > 1 then redis.call('RENAME', KEYS[4], KEYS[3]) else redis.call('UNLINK', KEYS[4]) end
return 1
