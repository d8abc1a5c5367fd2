#!lua flags=no-writes
-- Read one shard's part of a list by time, newest first, from just behind a position: blocks, or ends.
-- include: clock
-- include: key_types
-- include: search/list_position
-- KEYS: 1 the list 2 meta, of a list of ends
-- ARGV: 1 now|'' 2 how many 3 position's time, ms 4 position's member 5 lowest time, ms 6 time before which, ms 7 how
--       many the list may hold|'' 8 only times that are not in the future 0|1
-- returns: {now, how many there are between these times, {member, time, …}, from when on it is complete, ms|''}
local list, meta = KEYS[1], KEYS[2]
local now, limit, time, member, first, last, capacity, is_past = clock(ARGV[1]), unpack(ARGV, 2)
local bad = foreign('ZCARD', list)
if bad then return bad end
if is_past == '1' then
  if (tonumber(time) or 0) > now then time, member = ms(now + 1), '' end
  if last == '+inf' or tonumber(last) > now then last = ms(now + 1) end
end
local start = rank_behind(list, time, member)
local stop = math.min(start + tonumber(limit), redis.call('ZCOUNT', list, first, '+inf'))
local entries = stop > start and redis.call('ZREVRANGE', list, start, stop - 1, 'WITHSCORES') or {}
local from = 0
if meta then
  local noted = redis.pcall('HGET', meta, 'ended_from')
  from = type(noted) == 'string' and tonumber(noted) or 0
  if capacity ~= '' and redis.call('ZCARD', list) >= tonumber(capacity) then -- older ones may have been dropped
    from = math.max(from, tonumber(redis.call('ZRANGE', list, 0, 0, 'WITHSCORES')[2]) or 0)
  end
end
local complete = from > 0 and from < 1e15 and ms(from) or ''
return {now, redis.call('ZCOUNT', list, first, '(' .. last), entries, complete}
