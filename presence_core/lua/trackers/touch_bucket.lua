#!lua
-- R3, R5: note that a member was seen in the present bucket. Its SET expires after the window has passed.
-- include: trackers/current_bucket
-- KEYS: 1… buckets, each one older than the one before
-- ARGV: 1 now|'' 2 seconds in a bucket 3 number of the first key 4 seconds that a bucket lives 5 member
-- returns: the present bucket; where it has no key, nothing was done
local given, seconds, newest, ttl, member = unpack(ARGV)
local number, place = current_bucket(given, seconds, newest, #KEYS)
if place then
  redis.call('SADD', KEYS[place], member)
  redis.call('EXPIRE', KEYS[place], ttl)
end
return number
