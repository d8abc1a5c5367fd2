#!lua flags=no-writes
-- Reads a range of one shard's index, of words (users) or of addresses (sessions), and answers those sessions that are
-- live and pass, in no order. Entries may be stale. Records are derived from the prefixes: this only reads.
-- include: time
-- include: pace
-- include: record
-- include: facets
-- include: tests
-- KEYS: 1 words or addresses 2 sessions 3 deadlines 4 users 5 meta
-- ARGV: 1 now|'' 2 entries to look at, at most 3 range's lower end 4 upper end 5 words|addresses
--       6 what an entry of words must have in it, folded|'' 7 login before, ms|'' 8 login at or after, ms
--       9 prefix of users' keys 10 prefix of record keys 11… tests
-- returns: {now, {ref, login ms, …} that pass, the same of those that the client has to look at,
--           lower end of what is left|'', entries looked at}
local now, most, sessions = clock(ARGV[1]), tonumber(ARGV[2]), KEYS[2]
local before, oldest = tonumber(ARGV[7]) or math.huge, math.max(tonumber(ARGV[8]), watermark(KEYS[5]) + 1)
local passes = read_tests(now, 11)

local MS = 0.005
local STEP = ARGV[6] == '' and 100 or 500
local piece = ARGV[6]
local sure, maybe, looked, low = {}, {}, 0, ARGV[3]
local function test(refs)
  for first = 1, #refs, 500 do
    local last = math.min(first + 499, #refs)
    local logins = redis.call('ZMSCORE', sessions, unpack(refs, first, last))
    local due = redis.call('ZMSCORE', KEYS[3], unpack(refs, first, last))
    for i, text in ipairs(logins) do
      local login, ref = tonumber(text), refs[first + i - 1]
      if login and login >= oldest and login < before and tonumber(due[i] or 0) > now then
        -- One user may have a thousand sessions with long names: what is left when time is up, the client looks at.
        local late = i % 20 == 0 and held(looked) > MS
        if late then passes = passes and function() return MAYBE end end
        local fits = not passes and YES or passes(ref, ARGV[10] .. ref)
        if fits ~= NO then
          local out = fits == YES and sure or maybe
          out[#out + 1] = ref
          out[#out + 1] = text
        end
      end
    end
  end
end
local seen = {}
-- Tests the sessions of the users that these entries name, a few at a time. Answers how many entries it came to.
local function test_users(entries)
  local uids, refs = {}, {}
  for i, entry in ipairs(entries) do
    if piece == '' or string.find(entry, piece, 2, true) or #entry >= INDEX_CUT then -- what was cut off may have it
      local zero = string.find(entry, '\0', 1, true) or 1
      local uid = string.sub(entry, zero + 1)
      if not seen[uid] and (piece == '' or zero >= INDEX_CUT or string.find(string.sub(entry, 1, zero), piece, 2, true)) then
        uids[#uids + 1] = {uid, i}
      end
    end
  end
  for first = 1, #uids, 100 do
    local some = {}
    for i = first, math.min(first + 99, #uids) do some[#some + 1] = uids[i][1] end
    for i, online in ipairs(redis.call('ZMSCORE', KEYS[4], unpack(some))) do
      local sids = online and not seen[some[i]] and redis.pcall('SMEMBERS', ARGV[9] .. some[i]) or {}
      seen[some[i]] = true
      for _, sid in ipairs(sids.err and {} or sids) do refs[#refs + 1] = some[i] .. ':' .. sid end
      if #refs >= 50 then
        test(refs)
        refs = {}
        if held(looked) > MS then return uids[first + i - 1][2] end
      end
    end
  end
  test(refs)
  return #entries
end
repeat
  local step = math.min(STEP, most - looked)
  local entries = redis.call('ZRANGE', KEYS[1], low, ARGV[4], 'BYLEX', 'LIMIT', 0, step)
  local used = #entries
  if ARGV[5] == 'words' then
    used = test_users(entries)
  else
    local refs = {}
    for i, entry in ipairs(entries) do refs[i] = string.sub(entry, string.byte(entry) == 52 and 6 or 18) end
    test(refs)
  end
  looked = looked + used
  low = (used < #entries or #entries == step) and '(' .. entries[used] or ''
until low == '' or looked >= most or held(looked) > MS
return {now, sure, maybe, low, looked}
