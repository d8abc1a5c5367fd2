#!lua flags=allow-oom
-- Put live sessions into the indexes and, once each, into the counters of a recount.
-- include: facets
-- include: sessions/session_record
-- include: sessions/addresses
-- include: search/session_ids
-- KEYS: 1 sessions 2 words 3 addresses 4 recount 5 counted 6 ids, then a record for each ref
-- ARGV: 1 index addresses 0|1 2 write declared facets 0|1, then for each ref: ref, name, aliases, attributes as they
--       were read, declared attributes (facets.lua), digest of the session id|'' (not indexed), number of entries,
--       entries
-- returns: how many entries and counts were missing
local sessions, words, addresses, recount, counted, ids = unpack(KEYS)
local indexes_addresses, writes_declared = ARGV[1] == '1', ARGV[2] == '1'
redis.call('ZCARD', words)
redis.call('ZCARD', addresses)
redis.call('HLEN', recount)
redis.call('SCARD', counted)
redis.call('HLEN', ids)

local missing, at, is_counting, sums = 0, 3, redis.call('EXISTS', recount) == 1, {}

-- Count a session, unless it is counted. `is_current`: its attributes are still those that were read.
local function count_session(ref, record, row, is_current, declared)
  if not is_counting or redis.call('SADD', counted, ref) == 0 then return end
  if writes_declared and is_current and (row[8] or '') ~= declared then
    row[8] = declared_members(recount, declared)
    if row[8] == '' then redis.call('HDEL', record, 'f') else redis.call('HSET', record, 'f', row[8]) end
  end
  add_facets(sums, row, 1)
  if row[8] and row[8] ~= '' then -- the next session's declared attributes may be too many
    change_facets(recount, sums)
    sums = {}
  end
end

-- Entries for an index, each once, behind its score: one ZADD adds many.
local new_words, new_addresses, is_added = {}, {}, {}
local function add(entries, entry)
  if is_added[entry] then return end
  is_added[entry] = true
  entries[#entries + 1] = 0
  entries[#entries + 1] = entry
end
local function write(index, entries)
  for first = 1, #entries, 1000 do
    missing = missing + redis.call('ZADD', index, unpack(entries, first, math.min(first + 999, #entries)))
  end
end

for i = 7, #KEYS do
  local record, ref, name, aliases, attributes, declared, digest, number = KEYS[i], unpack(ARGV, at, at + 6)
  local row = redis.pcall('HMGET', record, 'x', unpack(RECORD_FIELDS))
  local is_current = not row.err and (table.remove(row, 1) or '') == attributes
  if redis.call('ZSCORE', sessions, ref) then
    if is_intact(row[1], row[2]) and not row[3] then
      if (row[4] or '') == name and (row[5] or '') == aliases then -- else a login has changed them
        for e = at + 7, at + 6 + number do add(new_words, ARGV[e]) end
      end
      if digest ~= '' and add_session_id(ids, sessions, digest, login_of(row[2])) then missing = missing + 1 end
      for _, entry in ipairs(indexes_addresses and address_entries(row[2], row[9], ref) or {}) do
        add(new_addresses, entry)
      end
      count_session(ref, record, row, is_current, declared)
    elseif is_counting then
      redis.call('SADD', counted, ref) -- no record: maintenance/settle_sessions.lua removes it from all lists
    end
  end
  at = at + 7 + number
end
write(words, new_words)
write(addresses, new_addresses)
change_facets(recount, sums)
return missing
