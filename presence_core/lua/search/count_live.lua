#!lua flags=no-writes
-- Count who is online on this shard. While a revoke_before is draining, there are at most as many users as sessions.
-- include: search/live_count
-- KEYS: 1 deadlines 2 users 3 meta 4 totals 5 sessions
-- ARGV: 1 now|''
-- returns: {now, live sessions, users, when a sweep last ran to its end|'', {reason, number, …}, draining 0|1}
local deadlines, users, meta, totals, sessions = unpack(KEYS)
local now, online = clock(ARGV[1]), redis.call('ZCARD', users)
local swept, revoked = unpack(redis.call('HMGET', meta, 'swept', 'revoked'))
local live, draining = live_sessions(now, sessions, deadlines, revoked)
if draining then online = math.min(online, live) end
return {now, live, online, swept or '', redis.call('HGETALL', totals), draining and 1 or 0}
