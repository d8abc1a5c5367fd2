#!lua flags=no-writes
-- R3, R5: who is in the latest buckets: how many, all of them, or those who are friends.
-- include: trackers/current_bucket
-- KEYS: 1… buckets, each one older than the one before, one more than `wanted`; last, for friends, a SET or ZSET
-- ARGV: 1 now|'' 2 seconds in a bucket 3 number of the first key 4 buckets wanted 5 count|members|friends
-- returns: {the present bucket, the number or {members of the newest bucket, of the one before who are in none since,
--          …}}; only the present bucket where it, or one that is wanted, has no key
local given, seconds, newest, wanted, answer = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5]
local friends = answer == 'friends' and KEYS[#KEYS]
local number, first = current_bucket(given, seconds, newest, #KEYS - (friends and 1 or 0) - wanted + 1)
if not first then return {number} end
if answer == 'count' then return {number, #redis.call('SUNION', unpack(KEYS, first, first + wanted - 1))} end
local known, out = {}, {}
for i = first, first + wanted - 1 do
  local fresh = {}
  for _, member in ipairs(friends and redis.call('ZINTER', 2, KEYS[i], friends) or redis.call('SMEMBERS', KEYS[i])) do
    if not known[member] then
      known[member] = true
      fresh[#fresh + 1] = member
    end
  end
  out[i - first + 1] = fresh
end
return {number, out}
