#!lua flags=no-writes
-- How many are online on this shard. While a sign-everybody-out is being drained, users are at most the sessions.
-- include: time
-- include: left
-- KEYS: 1 deadlines 2 users 3 meta 4 totals 5 sessions
-- ARGV: 1 now|''
-- returns: {now, live sessions, users, when a sweep last ran to its end|'', {reason, how often, …}, draining 0|1}
local now = clock(ARGV[1])
local users, about = redis.call('ZCARD', KEYS[2]), redis.call('HMGET', KEYS[3], 'swept', 'revoked')
local live, draining = live_sessions(now, KEYS[5], KEYS[1], about[2])
if draining then users = math.min(users, live) end
return {now, live, users, about[1] or '', redis.call('HGETALL', KEYS[4]), draining and 1 or 0}
