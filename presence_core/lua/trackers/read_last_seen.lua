#!lua flags=no-writes
-- Who was seen within a time: how many, or a page of them in the order of last seen.
-- include: trackers/clock_seconds
-- include: search/page_by_last_seen
-- KEYS: 1 last seen
-- ARGV: 1 now|'' 2 within, seconds 3 how many, 0 for only the number 4, 5 score and member at which this page begins|''
-- returns: the number, or {{member, score, …}, score and member at which the next page begins|''}
local list = KEYS[1]
local now, within, limit = clock_seconds(ARGV[1]), ARGV[2], ARGV[3]
local low = score(now - within)
if limit == '0' then return redis.call('ZCOUNT', list, low, score(now)) end
return {page_by_last_seen(list, low, score(now), limit, ARGV[4], ARGV[5])}
