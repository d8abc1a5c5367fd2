#!lua flags=no-writes
-- Scan one shard's list, newest login first, and return the sessions that pass the tests. The keys of records are
-- derived: this script only reads.
-- include: search/time_budget
-- include: search/list_position
-- include: search/filter_tests
-- KEYS: 1 sessions 2 deadlines 3 meta
-- ARGV: 1 now|'' 2 matches wanted 3 entries to read, at most 4 position's login ms|'' 5 position's ref
--       6 login before, ms|'' 7 login at or after, ms 8 prefix of record keys 9… tests
-- returns: {now, live sessions, {ref, login ms, …}, {ref, login ms} of the last entry read|{}, entries read, at the end
--       0|1}
local sessions, deadlines, meta = unpack(KEYS)
local now, wanted, most, login, ref = clock(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], ARGV[5]
local before, after, prefix, passes = ARGV[6], tonumber(ARGV[7]), ARGV[8], read_tests(now, 9)
local start = login ~= '' and rank_behind(sessions, login, ref) or 0
if before ~= '' then start = math.max(start, redis.call('ZCOUNT', sessions, before, '+inf')) end
local oldest = math.max(after, watermark(meta) + 1)
local stop = redis.call('ZCOUNT', sessions, ms(oldest), '+inf') -- the rank behind the last

local STEP, MAX_SECONDS = 100, 0.005
local found, read, last = {}, 0, nil
-- At least one step, however slow the server is: where nothing was read, no cursor can say how far a scan came.
while start < stop and #found < 2 * wanted and read < most and (read == 0 or seconds_used(read) < MAX_SECONDS) do
  local upto = math.min(start + STEP, start + most - read, stop) - 1
  for _, entry in ipairs(redis.call('ZREVRANGE', sessions, start, upto)) do
    if not passes or passes(entry, prefix .. entry) ~= NO then
      found[#found + 1] = entry
      found[#found + 1] = redis.call('ZSCORE', sessions, entry)
    end
    read, last, start = read + 1, entry, start + 1
    if #found >= 2 * wanted or (read % 20 == 0 and seconds_used(read) > MAX_SECONDS) then break end
  end
end
return {now, redis.call('ZCOUNT', deadlines, '(' .. ms(now), '+inf'), found,
        last and {last, redis.call('ZSCORE', sessions, last)} or {}, read, start < stop and 0 or 1}
