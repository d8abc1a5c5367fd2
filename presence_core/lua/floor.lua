#!lua flags=allow-oom
-- No session of this shard begins before a moment from here on: a bulk kick asks for all that began before it, and the
-- clock has not come to it yet. It only rises.
-- KEYS: 1 meta
-- ARGV: 1 moment, ms
-- returns: 1, or 0: it was as high already
if tonumber(ARGV[1]) <= tonumber(redis.call('HGET', KEYS[1], 'floor') or -1) then return 0 end
redis.call('HSET', KEYS[1], 'floor', ARGV[1])
return 1
