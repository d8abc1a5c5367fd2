#!lua flags=no-writes
-- Who was seen within a time: how many, or a page of them in the order of last seen.
-- include: trackers/clock_seconds
-- include: search/page_by_last_seen
-- KEYS: 1 last seen
-- ARGV: 1 now|'' 2 within, seconds 3 how many, 0 for only the number 4 where this page begins|''
-- returns: the number, or {{member, score, …}, where the next page begins|''}
local list = KEYS[1]
local now, within, limit, begin = clock_seconds(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]
local low = begin ~= '' and begin or score(now - within)
if limit == '0' then return redis.call('ZCOUNT', list, low, score(now)) end
return {page_by_last_seen(list, low, score(now), limit)}
