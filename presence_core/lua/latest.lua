#!lua flags=no-writes
-- The clock, and how far the sessions of this shard reach: "now" for whatever is to hold for all that have begun. A
-- login time may be ahead of the clock: it is always above the watermark, and a clock may be set back.
-- include: time
-- KEYS: 1 sessions 2 meta
-- ARGV: 1 now|''
-- returns: {now, the latest login time in the list|-1, the watermark of revoke_before|-1}
local TEN_YEARS = 315360000000 -- no clock was ever that far ahead: such an entry is not ours, and must move nothing
local now = clock(ARGV[1])
local newest = redis.call('ZRANGE', KEYS[1], ms(now + TEN_YEARS), '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, 1, 'WITHSCORES')
return {now, tonumber(newest[2] or -1) or -1, tonumber(redis.call('HGET', KEYS[2], 'revoked') or -1) or -1}
