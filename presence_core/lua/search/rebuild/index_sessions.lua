#!lua flags=allow-oom
-- Put live sessions into the indexes and, once each, into the counters of a recount.
-- include: facets
-- include: sessions/session_record
-- include: sessions/addresses
-- include: search/idp_entries
-- include: search/session_ids
-- KEYS: 1 sessions 2 words 3 addresses 4 recount 5 counted 6 ids 7 idp, then records
-- ARGV: 1 index addresses 0|1 2 index identity providers 0|1 3 write declared facets 0|1, then for each record: name,
--       aliases, attributes as they were read, declared attributes (facets.lua), digest of the session id|'' (not
--       indexed), number of entries, entries
-- returns: how many entries and counts were missing
local sessions, words, addresses, recount, counted, ids, idp = unpack(KEYS)
local indexes_addresses, indexes_idp, writes_declared = ARGV[1] == '1', ARGV[2] == '1', ARGV[3] == '1'
redis.call('ZCARD', words)
redis.call('ZCARD', addresses)
redis.call('HLEN', recount)
redis.call('SCARD', counted)
redis.call('HLEN', ids)
redis.call('ZCARD', idp)

local refs = {}
for i = 8, #KEYS do refs[i - 7] = string.sub(KEYS[i], #sessions + 1) end -- T:session:<ref>
local is_listed = redis.call('ZMSCORE', sessions, unpack(refs))
local is_counted = redis.call('EXISTS', recount) == 1 and redis.call('SMISMEMBER', counted, unpack(refs))
local missing, at, sums, new_counted = 0, 4, {}, {}

-- Whether a session is to be counted. Afterwards it is.
local function takes(i)
  if not is_counted or is_counted[i] == 1 or new_counted[refs[i]] then return false end
  new_counted[refs[i]] = true
  new_counted[#new_counted + 1] = refs[i]
  return true
end

-- `is_current`: the attributes of the session are still those that were read.
local function count_session(record, row, is_current, declared)
  if writes_declared and is_current and (row[R.declared] or '') ~= declared then
    change_facets(recount, sums) -- declared_members asks how many there are
    sums = {}
    local members = declared_members(recount, declared)
    row[R.declared] = members
    if members == '' then redis.call('HDEL', record, 'f') else redis.call('HSET', record, 'f', members) end
  end
  add_facets(sums, row, 1)
end

-- Entries for an index, each once, behind its score: one ZADD adds many.
local new_words, new_addresses, new_idp, is_added = {}, {}, {}, {}
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

for i, ref in ipairs(refs) do
  local record, name, aliases, attributes, declared, digest, number = KEYS[7 + i], unpack(ARGV, at, at + 5)
  if is_listed[i] then
    local row = redis.pcall('HMGET', record, COUNTED_FIELDS)
    if is_intact(row[R.seen], row[R.core]) and not row[R.end_reason] then
      if (row[R.name] or '') == name and (row[R.aliases] or '') == aliases then -- else a login has changed them
        for e = at + 6, at + 5 + number do add(new_words, ARGV[e]) end
      end
      if digest ~= '' and add_session_id(ids, sessions, digest, login_of(row[R.core])) then missing = missing + 1 end
      for _, entry in ipairs(indexes_addresses and address_entries(row[R.core], row[R.last_ip], ref) or {}) do
        add(new_addresses, entry)
      end
      for _, entry in ipairs(indexes_idp and idp_entries(row[R.idp], ref) or {}) do add(new_idp, entry) end
      if takes(i) then count_session(record, row, (row[R.attributes] or '') == attributes, declared) end
    else
      takes(i) -- no record: maintenance/settle_sessions.lua removes it from all lists
    end
  end
  at = at + 6 + number
end
write(words, new_words)
write(addresses, new_addresses)
write(idp, new_idp)
if #new_counted > 0 then redis.call('SADD', counted, unpack(new_counted)) end
change_facets(recount, sums)
return missing
