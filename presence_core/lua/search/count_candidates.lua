#!lua flags=no-writes
-- Count the entries that each index has for a filter: the planner decides by these numbers.
-- include: search/live_count
-- include: search/find_session_id
-- KEYS: 1 sessions 2 deadlines 3 closing 4 meta 5 words 6 addresses 7 facets 8 ids 9 users 10 people 11 idp
-- ARGV: 1 now|'' 2 login at or after, ms 3 login before, ms|'' 4 read facets 0|1 5… kind (words|addresses|ids|idp),
--       lower and upper end of each range; of ids: digest and id
-- returns: {now, sessions in the list, live sessions, live sessions of that time, how exact, {entries of each range},
--           {facet, count, …}, indexes that are complete, separated by commas|'-' (as the layout says), users who are
--           online or were in the last days}
--   how exact: 1 nothing waits for a sweep or a tombstone, 2 the number of sessions of that time is exact, 0 it is not
local sessions, deadlines, closing, meta, words, addresses, facets, ids, users, people, idp = unpack(KEYS)
local now, after, before = clock(ARGV[1]), ARGV[2], ARGV[3]
local reads_facets = ARGV[4] == '1'
local revoked, indexes = unpack(redis.call('HMGET', meta, 'revoked', 'indexes'))
local low, high = after, before == '' and '+inf' or '(' .. before
if revoked and tonumber(revoked) >= tonumber(after) then low = '(' .. revoked end
local live, inside = redis.call('ZCOUNT', deadlines, '(' .. ms(now), '+inf'), redis.call('ZCOUNT', sessions, low, high)
local over, due = count_due(now, sessions, deadlines, function(login)
  return login >= tonumber(after) and (before == '' or login < tonumber(before))
         and not (revoked and login <= tonumber(revoked))
end)
local is_exact = due == 0 and redis.call('HLEN', closing) == 0
                 and not (revoked and redis.call('ZCOUNT', sessions, '-inf', revoked) > 0)
local sizes, indexed = {}, {words = words, addresses = addresses, idp = idp}
for i = 5, #ARGV, 3 do
  local kind, low, high = unpack(ARGV, i, i + 2)
  sizes[#sizes + 1] = kind == 'ids' and count_session_id(ids, low)
                      or redis.call('ZLEXCOUNT', indexed[kind], low, high)
end
return {now, redis.call('ZCARD', sessions), live, inside - over, is_exact and 1 or due < MAX_DUE and 2 or 0, sizes,
        reads_facets and redis.call('HGETALL', facets) or {}, indexes or '-',
        redis.call('ZCARD', users) + redis.call('ZCARD', people)}
