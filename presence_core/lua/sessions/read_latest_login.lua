#!lua flags=no-writes
-- Read the clock and the latest login time of this shard: "now" for what is to apply to all sessions that have begun. A
-- login time may be ahead of the clock, because it is always above the watermark, and because a clock may be set back.
-- include: clock
-- KEYS: 1 sessions 2 meta
-- ARGV: 1 now|''
-- returns: {now, the latest login time in the list|-1, the watermark of revoke_before|-1,
--          the latest require_sign_in, ms|0}
local sessions, meta, now = KEYS[1], KEYS[2], clock(ARGV[1])
local TEN_YEARS = 315360000000 -- no clock was ever so far ahead: such an entry is another program's, and is ignored
local latest = ms(now + TEN_YEARS)
local newest = redis.call('ZRANGE', sessions, latest, '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, 1, 'WITHSCORES')
local revoked, demanded = unpack(redis.call('HMGET', meta, 'revoked', 'demanded'))
return {now, tonumber(newest[2] or -1) or -1, tonumber(revoked or -1) or -1, tonumber(demanded or 0) or 0}
