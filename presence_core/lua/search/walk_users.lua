#!lua flags=no-writes
-- Walk one shard's users, last seen first, and return those of their sessions that pass the tests. No session was seen
-- after its user was, so the sessions that were seen after the last user of the walk are all known then. The keys of
-- users and records are derived: this script only reads.
-- include: search/time_budget
-- include: search/live_count
-- include: search/list_position
-- include: search/filter_tests
-- include: sessions/on_behalf
-- KEYS: 1 users 2 sessions 3 deadlines 4 meta 5 sessions on behalf of users
-- ARGV: 1 now|'' 2 sessions wanted 3 users to read, at most 4, 5 last seen ms|'' and uid of the user behind whom it
--       begins 6, 7, 8 last seen ms|'', uid and session id of a position: only sessions behind it 9 1: it is the first
--       call of a page, which returns the sessions on behalf of users, too|0 10 login before, ms|'' 11 login at or
--       after, ms 12 return records 0|1 13 prefix of users' keys 14 prefix of record keys 15… tests
-- returns: {now, live sessions, that number is exact 0|1, {ref, last seen ms, last seen of its user ms|'', …},
--          {last seen ms, uid} of the last user read|{}, users read, at the end 0|1, {the HGETALL of each record, false
--          where it was not read}}
local users, sessions, deadlines, meta, on_behalf = unpack(KEYS)
local given_now, wanted, most, after_seen, after_uid, seen_before, uid_before, sid_before, is_first, before, after,
  with_records, user_prefix, record_prefix = unpack(ARGV, 1, ARGS)
local now, passes = clock(given_now), read_tests(clock(given_now), ARGS + 1)
wanted, most, seen_before = tonumber(wanted), tonumber(most), tonumber(seen_before)
local revoked = redis.call('HGET', meta, 'revoked')
local live, _, is_exact = live_sessions(now, sessions, deadlines, revoked)
local oldest, newest = math.max(tonumber(after), tonumber(revoked or -1) + 1), tonumber(before) or math.huge

local STEP, MAX_SECONDS, LATEST = 100, 0.005, 1e15
local found, read, latest, is_late = {}, 0, 0, false

local function is_behind(ref, seen)
  if not seen_before or seen < seen_before then return true end
  if seen > seen_before then return false end
  local uid, sid = string.match(ref, '^(.*):([^:]*)$')
  if uid ~= uid_before then return bytes_less(uid or ref, uid_before) end
  return bytes_less(sid, sid_before)
end

-- Add a session if it is behind the position, passes and is live. `score`: when its user was last seen, '' for one on
-- behalf of a user. The cheap conditions that most fail come first. A session whose record is lost counts as seen with
-- its user: the client finds that.
local function add_session(ref, score)
  local record, limit = record_prefix .. ref, tonumber(score) or LATEST
  local text = read_derived('HGET', record, 's')
  local seen = type(text) == 'string' and #text < 16 and tonumber(text) or limit
  if seen > limit then seen = limit end
  if not is_behind(ref, seen) then return end
  -- One user may have a thousand sessions with long names: when the time is used up, the client tests the rest.
  if passes and not is_late and passes(ref, record) == NO then return end
  if tonumber(redis.call('ZSCORE', deadlines, ref) or 0) <= now then return end
  local login = tonumber(redis.call('ZSCORE', sessions, ref) or -1)
  if login < oldest or login >= newest then return end
  local n = #found
  found[n + 1], found[n + 2], found[n + 3] = ref, ms(seen), score
  if seen == limit then latest = latest + 1 end
end

if is_first == '1' then
  local others = redis.pcall('ZREVRANGE', on_behalf, 0, 999)
  for _, ref in ipairs(others.err and {} or others) do add_session(ref, '') end
end
local total, rank = redis.call('ZCARD', users), 0
if after_seen ~= '' then rank = rank_behind(users, after_seen, after_uid) end
local last, number = {}, 0
while rank < total and latest < wanted and read < most and not is_late do
  local upto = math.min(rank + STEP, rank + most - read, rank + wanted - latest, total) - 1
  local entries = redis.call('ZREVRANGE', users, rank, upto, 'WITHSCORES')
  for i = 1, #entries, 2 do
    local uid, score = entries[i], entries[i + 1]
    local sids = read_derived('SMEMBERS', user_prefix .. uid)
    for _, sid in ipairs(sids.err and {} or sids) do
      number = number + 1
      is_late = is_late or number % 20 == 0 and seconds_used(number) > MAX_SECONDS
      if not is_on_behalf(sid) then add_session(uid .. ':' .. sid, score) end
    end
    read, rank, last = read + 1, rank + 1, {score, uid}
    if latest >= wanted or is_late then break end
  end
end

-- Those behind the last user who was read may be on no page of this call.
local records, known = {}, rank < total and tonumber(last[1]) or 0
for i = 1, with_records == '1' and #found or 0, 3 do
  local record = tonumber(found[i + 1]) >= known and redis.pcall('HGETALL', record_prefix .. found[i])
  records[#records + 1] = record and not record.err and #record > 0 and record or false
end
return {now, live, is_exact and 1 or 0, found, last, read, rank < total and 0 or 1, records}
