#!lua flags=no-writes
-- Who was seen from so long ago until now: how many, or a page of them in the order in which they were seen.
-- include: seconds
-- include: climb
-- KEYS: 1 last seen
-- ARGV: 1 now|'' 2 within 3 how many are wanted, 0 to be told only the number 4 where this page begins|''
-- returns: the number, or {{member, score, …}, where the next page begins|''}
local now = instant_of(ARGV[1])
local low = ARGV[4] ~= '' and ARGV[4] or score(now - ARGV[2])
if ARGV[3] == '0' then return redis.call('ZCOUNT', KEYS[1], low, score(now)) end
return {climb(KEYS[1], low, score(now), ARGV[3])}
