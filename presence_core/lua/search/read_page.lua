#!lua flags=no-writes
-- Read one shard's part of a page: newest login first, from just behind a position.
-- include: search/live_count
-- include: search/list_position
-- KEYS: 1 sessions 2 deadlines 3 meta
-- ARGV: 1 now|'' 2 how many 3 position's login ms|'' 4 position's ref 5 prefix of the records' keys|'' (no records)
-- returns: {now, live sessions, {ref, login ms, …}, that number is exact 0|1, {the HGETALL of each record}}; no
--          records where one is not found here: the client's own command follows a moving slot, and says what failed
local sessions, deadlines, meta = unpack(KEYS)
local now, limit, login, ref, record_prefix = clock(ARGV[1]), tonumber(ARGV[2]), unpack(ARGV, 3, 5)
local start = login ~= '' and rank_behind(sessions, login, ref) or 0
local revoked = redis.call('HGET', meta, 'revoked')
local live, draining, is_exact = live_sessions(now, sessions, deadlines, revoked)
local exact = is_exact and 1 or 0
if draining then -- revoked sessions are the oldest: the list ends before them
  limit = math.min(limit, math.max(0, redis.call('ZCOUNT', sessions, '(' .. revoked, '+inf') - start))
  if limit == 0 then return {now, live, {}, exact, {}} end
end
local entries, records = redis.call('ZREVRANGE', sessions, start, start + limit - 1, 'WITHSCORES'), {}
for i = 1, record_prefix ~= '' and #entries or 0, 2 do
  local record = redis.pcall('HGETALL', record_prefix .. entries[i])
  if record.err or #record == 0 then
    records = {}
    break
  end
  records[#records + 1] = record
end
return {now, live, entries, exact, records}
