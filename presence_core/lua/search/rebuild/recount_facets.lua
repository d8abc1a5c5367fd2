#!lua flags=allow-oom
-- Begin a recount of facets, or replace the old counters by the new ones when every session is counted.
-- include: facets
-- KEYS: 1 sessions 2 closing 3 facets 4 recount 5 counted 6 meta (tells logins that a recount is running)
-- ARGV: 1 begin|restart|end (restart: discard the counts of an interrupted recount)
-- returns: 1 if done; 0 if a recount is running already, or some sessions are not counted yet
local sessions, closing, facets, recount, counted, meta = unpack(KEYS)
local step = ARGV[1]
redis.call('SCARD', counted)
redis.call('HLEN', recount)
if step ~= 'end' then
  local was_unknown = redis.call('HSET', meta, 'recount', 1) == 1 -- `meta` was lost: logins were not counted
  if step == 'begin' and not was_unknown and redis.call('EXISTS', recount) == 1 then return 0 end
  redis.call('UNLINK', recount, counted)
  redis.call('HSET', recount, '-', PAD)
  return 1
end
if redis.call('EXISTS', recount) == 0 then -- another client has ended it; or it was lost
  redis.call('HDEL', meta, 'recount')
  redis.call('UNLINK', counted)
  return 1
end
if redis.call('HLEN', closing) > 0 or redis.call('ZCARD', sessions) ~= redis.call('SCARD', counted) then return 0 end
redis.call('HDEL', meta, 'recount')
redis.call('UNLINK', facets, counted)
if redis.call('HLEN', recount) > 1 then redis.call('RENAME', recount, facets) else redis.call('UNLINK', recount) end
return 1
