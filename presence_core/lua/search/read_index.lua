#!lua flags=no-writes
-- Read a range of one shard's index, of words (users), of addresses, ids or identity providers (sessions), or take the
-- refs that are given. Returns those sessions that are live and pass the tests, in no order. Entries may be stale. The
-- keys of records are derived: this script only reads.
-- include: search/time_budget
-- include: search/filter_tests
-- include: search/find_session_id
-- include: search/word_pieces
-- KEYS: 1 words, addresses, ids, idp or sessions 2 sessions 3 deadlines 4 meta
-- ARGV: 1 now|'' 2 entries to read, at most 3 range's lower end 4 upper end 5 words|addresses|ids|idp|sessions
--       (of sessions, 3 has the refs, one a line) 6 what an entry of words must contain, each behind a zero byte|''
--       7 login before, ms|'' 8 login at or after, ms 9 prefix of users' keys 10 prefix of record keys 11 time to
--       return: login|last_seen 12… tests
-- returns: {now, {ref, that time, ms, …} that pass, the same of those that the client has to test,
--           lower end of the rest|'', entries read}
local index, sessions, deadlines, meta = unpack(KEYS)
local now, most, low, high, kind = clock(ARGV[1]), tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5]
local pieces, before, after = read_pieces(ARGV[6]), tonumber(ARGV[7]) or math.huge, tonumber(ARGV[8])
local user_prefix, record_prefix, by_last_seen = ARGV[9], ARGV[10], ARGV[11] == 'last_seen'
local oldest, passes = math.max(after, watermark(meta) + 1), read_tests(now, 12)

local MAX_SECONDS = 0.005
local STEP = pieces and 500 or 100
local sure, unsure, read = {}, {}, 0

local function last_seen(ref) -- '0' where the record is lost
  local seen = read_derived('HGET', record_prefix .. ref, 's')
  return type(seen) == 'string' and #seen < 16 and string.find(seen, '^%d+$') and seen or '0'
end

local function test_sessions(refs, first, last)
  local logins = redis.call('ZMSCORE', sessions, unpack(refs, first, last))
  local due = redis.call('ZMSCORE', deadlines, unpack(refs, first, last))
  for i, text in ipairs(logins) do
    local login, ref = tonumber(text), refs[first + i - 1]
    if login and login >= oldest and login < before and tonumber(due[i] or 0) > now then
      -- One user may have a thousand sessions with long names: when the time is used up, the client tests the rest.
      local late = i % 20 == 0 and seconds_used(read) > MAX_SECONDS
      if late then passes = passes and function() return MAYBE end end
      local fits = not passes and YES or passes(ref, record_prefix .. ref)
      if fits ~= NO then
        local found = fits == YES and sure or unsure
        found[#found + 1] = ref
        found[#found + 1] = by_last_seen and last_seen(ref) or text
      end
    end
  end
end
local function test(refs)
  for first = 1, #refs, 500 do test_sessions(refs, first, math.min(first + 499, #refs)) end
end

-- The users of these entries that may contain the pieces, {uid, place of the entry}. `tested`: users to leave out.
local function users_of(entries, tested)
  local found = {}
  for i = 1, #entries do
    local entry = entries[i]
    if not pieces or may_contain(entry, pieces) then
      local uid = string.sub(entry, (string.find(entry, '\0', 1, true) or 1) + 1)
      if not tested[uid] then found[#found + 1] = {uid, i} end
    end
  end
  return found
end

-- Test the sessions of the users of these entries, a few at a time. Returns how many entries it got through.
local tested = {}
local function test_users(entries)
  local found, refs = users_of(entries, tested), {}
  for i = 1, #found do
    local uid = found[i][1]
    -- Also of a user who is offline: staff may have begun a session on their behalf.
    local sids = tested[uid] and {} or read_derived('SMEMBERS', user_prefix .. uid)
    tested[uid] = true
    for _, sid in ipairs(sids.err and {} or sids) do refs[#refs + 1] = uid .. ':' .. sid end
    if #refs >= 50 or i % 100 == 0 then
      test(refs)
      refs = {}
      if seconds_used(read) > MAX_SECONDS then return found[i][2] end
    end
  end
  test(refs)
  return #entries
end

-- Of addresses: family, address and ref. Of identity providers, as long as an IPv6 address: kind, digest and ref.
local function test_refs(entries)
  local refs = {}
  for i, entry in ipairs(entries) do refs[i] = string.sub(entry, string.byte(entry) == 52 and 6 or 18) end
  test(refs)
  return #entries
end

if kind == 'sessions' then
  local refs = {}
  for ref in string.gmatch(low, '[^\n]+') do refs[#refs + 1] = ref end
  test(refs)
  return {now, sure, unsure, '', #refs}
end
if kind == 'ids' then
  local refs, number = find_session_id(index, sessions, low, high)
  test(refs)
  return {now, sure, unsure, '', number}
end
repeat
  local step = math.min(STEP, most - read)
  local entries = redis.call('ZRANGE', index, low, high, 'BYLEX', 'LIMIT', 0, step)
  local done = (kind == 'words' and test_users or test_refs)(entries)
  read = read + done
  low = (done < #entries or #entries == step) and '(' .. entries[done] or ''
until low == '' or read >= most or seconds_used(read) > MAX_SECONDS
return {now, sure, unsure, low, read}
