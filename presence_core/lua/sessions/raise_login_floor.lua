#!lua flags=allow-oom
-- Raise the floor of login times: from now on no session of this shard begins before it. A bulk kick ends all sessions
-- that began before a time which the shard's clock may not have reached yet.
-- KEYS: 1 meta
-- ARGV: 1 floor, ms
-- returns: 1, or 0 where the floor was as high already
local meta, floor = KEYS[1], ARGV[1]
if tonumber(floor) <= tonumber(redis.call('HGET', meta, 'floor') or -1) then return 0 end
redis.call('HSET', meta, 'floor', floor)
return 1
