#!lua flags=no-writes
-- How many are online on this shard. While a sign-everybody-out is being drained, both counts are at most what is left.
-- include: time
-- KEYS: 1 deadlines 2 users 3 meta 4 totals 5 sessions
-- ARGV: 1 now|''
-- returns: {now, live sessions, users, when a sweep last ran to its end|'', {reason, how often, …}, draining 0|1}
local now = clock(ARGV[1])
local live, users = redis.call('ZCOUNT', KEYS[1], '(' .. ms(now), '+inf'), redis.call('ZCARD', KEYS[2])
local about = redis.call('HMGET', KEYS[3], 'swept', 'revoked')
local draining = about[2] and redis.call('ZCOUNT', KEYS[5], '-inf', about[2]) > 0
if draining then
  live = math.min(live, redis.call('ZCOUNT', KEYS[5], '(' .. about[2], '+inf'))
  users = math.min(users, live)
end
return {now, live, users, about[1] or '', redis.call('HGETALL', KEYS[4]), draining and 1 or 0}
