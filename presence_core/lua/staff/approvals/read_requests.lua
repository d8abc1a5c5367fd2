#!lua flags=no-writes
-- All requests.
-- include: clock
-- KEYS: 1 approvals
-- ARGV: 1 now|''
-- returns: {now, {id, request as JSON, …}}
return {clock(ARGV[1]), redis.call('HGETALL', KEYS[1])}
