#!lua
-- R3, R5: a member was seen in this bucket of time. Its SET goes by itself, after the window has passed.
-- include: seconds
-- include: bucket
-- KEYS: 1… buckets, each one older than the one before
-- ARGV: 1 now|'' 2 seconds in a bucket 3 number of the first key 4 seconds that a bucket lives 5 member
-- returns: the present bucket; where none of the keys is its, nothing was done
local number, place = bucket_now(#KEYS)
if place then
  redis.call('SADD', KEYS[place], ARGV[5])
  redis.call('EXPIRE', KEYS[place], ARGV[4])
end
return number
