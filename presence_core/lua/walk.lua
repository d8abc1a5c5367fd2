#!lua flags=no-writes
-- Walks one shard's list, newest login first, and answers who passes. Records are derived from the prefix: this only reads.
-- include: time
-- include: pace
-- include: place
-- include: record
-- include: facets
-- include: tests
-- KEYS: 1 sessions 2 deadlines 3 meta
-- ARGV: 1 now|'' 2 matches wanted 3 entries to look at, at most 4 position's login ms|'' 5 position's ref
--       6 login before, ms|'' 7 login at or after, ms 8 prefix of record keys 9… tests
-- returns: {now, live sessions, {ref, login ms, …}, {ref, login ms} of the last entry looked at|{}, looked at, done 0|1}
local now, want, most, sessions, prefix = clock(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), KEYS[1], ARGV[8]
local passes = read_tests(now, 9)
local start = ARGV[4] ~= '' and place_behind(sessions, ARGV[4], ARGV[5]) or 0
if ARGV[6] ~= '' then start = math.max(start, redis.call('ZCOUNT', sessions, ARGV[6], '+inf')) end
local oldest = math.max(tonumber(ARGV[7]), watermark(KEYS[3]) + 1)
local stop = redis.call('ZCOUNT', sessions, ms(oldest), '+inf') -- the rank behind the last

local STEP, MS = 100, 0.005
local out, looked, last = {}, 0, nil
while start < stop and #out < 2 * want and looked < most and held(looked) < MS do
  for _, ref in ipairs(redis.call('ZREVRANGE', sessions, start, math.min(start + STEP, start + most - looked, stop) - 1)) do
    if not passes or passes(ref, prefix .. ref) ~= NO then
      out[#out + 1] = ref
      out[#out + 1] = redis.call('ZSCORE', sessions, ref)
    end
    looked, last, start = looked + 1, ref, start + 1
    if #out >= 2 * want or (looked % 20 == 0 and held(looked) > MS) then break end
  end
end
return {now, redis.call('ZCOUNT', KEYS[2], '(' .. ms(now), '+inf'), out,
        last and {last, redis.call('ZSCORE', sessions, last)} or {}, looked, start < stop and 0 or 1}
