#!lua flags=no-writes
-- The time, and what the worker that leads, or led last, has reported.
-- include: clock
-- KEYS: 1 worker
-- ARGV: 1 now|''
-- returns: {now, {field, value, …}}
local worker, given_now = KEYS[1], ARGV[1]
return {ms(clock(given_now)), redis.call('HGETALL', worker)}
