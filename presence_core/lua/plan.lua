#!lua flags=no-writes
-- How many entries each index has for a filter: what the planner goes by.
-- include: time
-- KEYS: 1 sessions 2 deadlines 3 closing 4 meta 5 words 6 addresses 7 facets
-- ARGV: 1 now|'' 2 login at or after, ms 3 login before, ms|'' 4 facets wanted 0|1 5 ranges of words, how many 6… lower and
--       upper end of each, then of each range of addresses
-- returns: {now, sessions in the list, live sessions, live sessions of that time, exact 0|1, {entries of each range},
--           {facet, count, …}, indexes that are whole, with commas|'-' (as the layout says)}
local now, sessions = clock(ARGV[1]), KEYS[1]
local about = redis.call('HMGET', KEYS[4], 'revoked', 'indexes')
local revoked = about[1]
local low, high = ARGV[2], ARGV[3] == '' and '+inf' or '(' .. ARGV[3]
if revoked and tonumber(revoked) >= tonumber(low) then low = '(' .. revoked end
local live, inside = redis.call('ZCOUNT', KEYS[2], '(' .. ms(now), '+inf'), redis.call('ZCOUNT', sessions, low, high)
-- Those past their deadline that no sweep has met yet are still in the list.
local due = redis.call('ZRANGE', KEYS[2], '-inf', ms(now), 'BYSCORE', 'LIMIT', 0, 1000)
if #due > 0 then
  for _, login in ipairs(redis.call('ZMSCORE', sessions, unpack(due))) do
    login = tonumber(login)
    if login and login >= tonumber(ARGV[2]) and (ARGV[3] == '' or login < tonumber(ARGV[3]))
       and not (revoked and login <= tonumber(revoked)) then inside = inside - 1 end
  end
end
local exact = #due == 0 and redis.call('HLEN', KEYS[3]) == 0
              and not (revoked and redis.call('ZCOUNT', sessions, '-inf', revoked) > 0)
local ranges = {}
for i = 6, #ARGV, 2 do
  local key = (i - 6) / 2 < tonumber(ARGV[5]) and KEYS[5] or KEYS[6]
  ranges[#ranges + 1] = redis.call('ZLEXCOUNT', key, ARGV[i], ARGV[i + 1])
end
local facets = ARGV[4] == '1'
return {now, redis.call('ZCARD', sessions), live, inside, exact and 1 or #due < 1000 and 2 or 0, ranges,
        facets and redis.call('HGETALL', KEYS[7]) or {}, about[2] or '-'}
