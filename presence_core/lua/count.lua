#!lua flags=no-writes
-- How many are online on this shard.
-- include: time
-- KEYS: 1 deadlines 2 users 3 meta 4 totals
-- ARGV: 1 now|''
-- returns: {now, live sessions, users, when a sweep last ran to its end|'', {reason, how often, …}}
local now = clock(ARGV[1])
return {now, redis.call('ZCOUNT', KEYS[1], '(' .. ms(now), '+inf'), redis.call('ZCARD', KEYS[2]),
        redis.call('HGET', KEYS[3], 'swept') or '', redis.call('HGETALL', KEYS[4])}
