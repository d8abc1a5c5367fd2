#!lua flags=no-writes
-- For the worker's lag and the samples: the oldest deadline, and how many users were seen.
-- include: clock
-- KEYS: 1 deadlines 2 users 3 people
-- ARGV: 1 begin of the hour, ms 2 begin of the day, ms
-- returns: {the oldest deadline, ms|'', users seen or online since the hour began, the same for the day}
local deadlines, users, people = unpack(KEYS)
local hour, day = unpack(ARGV)
local online, oldest = redis.call('ZCARD', users), redis.call('ZRANGE', deadlines, 0, 0, 'WITHSCORES')[2]
return {oldest and ms(tonumber(oldest)) or '',
        online + redis.call('ZCOUNT', people, hour, '+inf'), online + redis.call('ZCOUNT', people, day, '+inf')}
