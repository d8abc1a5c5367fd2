#!lua flags=no-writes
-- What upkeep wants to know of this shard beside the counts.
-- include: time
-- KEYS: 1 deadlines 2 users 3 people
-- ARGV: 1 begin of the hour, ms 2 begin of the day, ms
-- returns: {the oldest deadline, ms|'', users seen or online since the hour began, the same of the day}
local online, oldest = redis.call('ZCARD', KEYS[2]), redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]
return {oldest and ms(tonumber(oldest)) or '',
        online + redis.call('ZCOUNT', KEYS[3], ARGV[1], '+inf'), online + redis.call('ZCOUNT', KEYS[3], ARGV[2], '+inf')}
