#!lua flags=no-writes
-- Read the refs of a part of one shard's list, newest login first: a fifth of the time of a scan that reads records.
-- include: clock
-- include: sessions/session_record
-- include: search/list_position
-- KEYS: 1 sessions 2 deadlines 3 meta
-- ARGV: 1 now|'' 2 entries to read, at most 3 position's login ms|'' 4 position's ref 5 login before, ms|''
--       6 login at or after, ms
-- returns: {now, live sessions, {ref, …}, {ref, login ms} of the last|{}, at the end 0|1}
local sessions, deadlines, meta = unpack(KEYS)
local now, most, login, ref, before, after = clock(ARGV[1]), tonumber(ARGV[2]), unpack(ARGV, 3, 6)
local start = login ~= '' and rank_behind(sessions, login, ref) or 0
if before ~= '' then start = math.max(start, redis.call('ZCOUNT', sessions, before, '+inf')) end
local oldest = math.max(tonumber(after), watermark(meta) + 1)
local stop = redis.call('ZCOUNT', sessions, ms(oldest), '+inf') -- the rank behind the last
local refs = start < stop and redis.call('ZREVRANGE', sessions, start, math.min(start + most, stop) - 1) or {}
local last = refs[#refs]
return {now, redis.call('ZCOUNT', deadlines, '(' .. ms(now), '+inf'), refs,
        last and {last, redis.call('ZSCORE', sessions, last)} or {}, start + #refs < stop and 0 or 1}
