#!lua flags=no-writes
-- What may be removed: people who have been away for too long, the oldest ends beyond the cap, and listed ends whose
-- tombstone has expired. The last are found as Redis finds expired keys: look at a part of them at random, and look
-- again while many are found.
-- include: clock
-- KEYS: 1 people 2 ended (tombstones are derived from the prefix: this only reads)
-- ARGV: 1 now|'' 2 seconds that people are kept 3 cap of ended 4 the shortest retention in use, s 5 prefix of record
--       keys 6 how many of each, at most 7 a random number
-- returns: {{uids}, {refs of ends}}
local people, ended = unpack(KEYS)
local given_now, keep_people, cap, shortest, record_prefix, limit, random = unpack(ARGV, 1, ARGS)
local now = clock(given_now)
limit = tonumber(limit)
local function before(seconds) return ms(now - tonumber(seconds) * 1000) end

local uids = redis.call('ZRANGE', people, '-inf', before(keep_people), 'BYSCORE', 'LIMIT', 0, limit)
local excess = redis.call('ZCARD', ended) - tonumber(cap)
if excess > 0 then return {uids, redis.call('ZRANGE', ended, 0, math.min(excess, limit) - 1)} end
local refs = {}
local old = redis.call('ZCOUNT', ended, '-inf', before(shortest))
if old > 0 then
  local first = old > limit and tonumber(random) % (old - limit + 1) or 0
  for _, ref in ipairs(redis.call('ZRANGE', ended, first, first + math.min(old, limit) - 1)) do
    if redis.call('EXISTS', record_prefix .. ref) == 0 then refs[#refs + 1] = ref end
  end
end
return {uids, refs}
