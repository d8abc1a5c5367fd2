#!lua flags=no-writes
-- What may be forgotten: people away for too long, the oldest ends beyond the cap, and listed ends whose tombstone has
-- run out. The last are found as Redis finds expired keys: look at a run of them at random, look again while many are.
-- include: time
-- KEYS: 1 people 2 ended (tombstones are derived from the prefix: this only reads)
-- ARGV: 1 now|'' 2 people's seconds 3 cap of ended 4 shortest retention in force, s 5 prefix of record keys
--       6 how many at most of each 7 a random number
-- returns: {{uids}, {refs of ends}}
local now, most = clock(ARGV[1]), tonumber(ARGV[6])
local uids = redis.call('ZRANGE', KEYS[1], '-inf', ms(now - tonumber(ARGV[2]) * 1000), 'BYSCORE', 'LIMIT', 0, most)
local excess = redis.call('ZCARD', KEYS[2]) - tonumber(ARGV[3])
if excess > 0 then return {uids, redis.call('ZRANGE', KEYS[2], 0, math.min(excess, most) - 1)} end
local refs = {}
local old = redis.call('ZCOUNT', KEYS[2], '-inf', ms(now - tonumber(ARGV[4]) * 1000))
local first = old > most and tonumber(ARGV[7]) % (old - most + 1) or 0
if old > 0 then
  for _, ref in ipairs(redis.call('ZRANGE', KEYS[2], first, first + math.min(old, most) - 1)) do
    if redis.call('EXISTS', ARGV[5] .. ref) == 0 then refs[#refs + 1] = ref end
  end
end
return {uids, refs}
