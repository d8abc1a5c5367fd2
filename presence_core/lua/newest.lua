#!lua flags=no-writes
-- One shard's part of a list by time, newest first, from just behind a position: who is blocked, what has ended.
-- include: time
-- include: ending
-- include: place
-- KEYS: 1 the list 2 meta, of a list of ends
-- ARGV: 1 now|'' 2 how many 3 position's time, ms 4 position's member 5 none before this time, ms 6 nor from this on
--       7 how many the list may hold|''
-- returns: {now, how many there are between these times, {member, time, …}, from when on it is complete, ms|''}
local list, first, last = KEYS[1], ARGV[5], '(' .. ARGV[6]
local bad = foreign('ZCARD', list)
if bad then return bad end
local start = place_behind(list, ARGV[3], ARGV[4])
local stop = math.min(start + tonumber(ARGV[2]), redis.call('ZCOUNT', list, first, '+inf'))
local out = {}
if stop > start then out = redis.call('ZREVRANGE', list, start, stop - 1, 'WITHSCORES') end
local from = 0
if KEYS[2] then
  local noted = redis.pcall('HGET', KEYS[2], 'ended_from')
  from = type(noted) == 'string' and tonumber(noted) or 0
  if ARGV[7] ~= '' and redis.call('ZCARD', list) >= tonumber(ARGV[7]) then -- the oldest may have gone
    from = math.max(from, tonumber(redis.call('ZRANGE', list, 0, 0, 'WITHSCORES')[2]) or 0)
  end
end
local complete = from > 0 and from < 1e15 and ms(from) or ''
return {clock(ARGV[1]), redis.call('ZCOUNT', list, first, last), out, complete}
