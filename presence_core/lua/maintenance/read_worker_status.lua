#!lua flags=no-writes
-- The time, and what the worker that leads, or led last, has reported.
-- include: time
-- KEYS: 1 worker
-- ARGV: 1 now|''
-- returns: {now, {field, value, …}}
return {ms(clock(ARGV[1])), redis.call('HGETALL', KEYS[1])}
