#!lua
-- Change name and aliases of a person: of the record that is kept, and of all sessions of the user that are listed.
-- Those past their deadline are among them, because their ends will write the person. What is not given stays. They are
-- found by the new name. Entries of old names in the index of words stay: search/rebuild/remove_words.lua removes those
-- that nothing of the user needs.
-- include: sessions/session_record
-- include: key_types
-- KEYS: 1 sessions 2 meta 3 users 4 people 5 words 6 user's live ids 7 person, then a record for each session
-- ARGV: 1 now|'' 2 uid 3 seconds for which a person who is new here is kept 4 '=' and the name|'' (stays)
--       5 '=' and the aliases|'' 6 '', or the stamp of a call whose further sessions these are
--       7 number of new entries of the index of words, these, then the session ids
-- returns: {how many live sessions were changed, stamp, {session ids that were not declared},
--          {name, aliases, name, … of what was changed}}. Stamp: ms, later than that of any call before;
--          sessions/tombstone.lua compares it
local sessions, meta, users, people, words, live, person = unpack(KEYS, 1, 7)
local given_now, uid, keep, name, aliases, stamp, number_of_words = unpack(ARGV, 1, ARGS)
local now, first_sid = clock(given_now), ARGS + 1 + number_of_words
local sids = redis.call('SMEMBERS', live)
local is_known = #sids > 0 or redis.call('ZSCORE', users, uid) or redis.call('ZSCORE', people, uid)
local bad = foreign('HLEN', person, 'ZCARD', words, 'ZCARD', sessions)
if bad then return bad end
local kept = redis.call('HMGET', person, 'n', 'a', 'rn', 'ra')
if not is_known and not kept[1] and not kept[2] then return {0, '', {}, {}} end
if stamp == '' then
  stamp = ms(math.max(now, tonumber(kept[3] or 0) + 1, tonumber(kept[4] or 0) + 1))
elseif name ~= '' and kept[3] ~= stamp or aliases ~= '' and kept[4] ~= stamp then
  return {0, stamp, {}, {}} -- a later call has changed it again
end

local revoked, revoked_at = watermark(meta)
local changed, former, is_former, found, missing = 0, {}, {}, {}, {}
local function add_former(old_name, old_aliases)
  local pair = old_name .. '\0' .. old_aliases
  if is_former[pair] then return end
  is_former[pair] = true
  former[#former + 1], former[#former + 2] = old_name, old_aliases
end
local function differs(given, old) return given ~= '' and string.sub(given, 2) ~= old end

add_former(kept[1] or '', kept[2] or '')
local to_change = {person}
for i = first_sid, #ARGV do
  local sid, record = ARGV[i], KEYS[8 + i - first_sid]
  found[sid] = true
  local row = redis.pcall('HMGET', record, 's', 'c', 'n', 'a', 'e')
  local seen, core, old_name, old_aliases, end_reason = unpack(row, 1, 5)
  old_name, old_aliases = old_name or '', old_aliases or ''
  local is_ours = not row.err and is_intact(seen, core) and not end_reason
  if is_ours and (differs(name, old_name) or differs(aliases, old_aliases))
      and redis.call('ZSCORE', sessions, uid .. ':' .. sid) then -- else it has ended, and keeps its name
    add_former(old_name, old_aliases)
    to_change[#to_change + 1] = record
    local deadline, login = deadline_of(tonumber(seen), core)
    if now < deadline and not is_revoked(now, login, deadline, revoked, revoked_at) then changed = changed + 1 end
  end
end
for _, sid in ipairs(sids) do
  if not found[sid] then missing[#missing + 1] = sid end
end

-- Nothing below can fail. The person comes first.
local values, cleared = {}, {}
local function give(field, given)
  if #given > 1 then
    values[#values + 1], values[#values + 2] = field, string.sub(given, 2)
  elseif given ~= '' then
    cleared[#cleared + 1] = field
  end
end
give('n', name)
give('a', aliases)
if name ~= '' then redis.call('HSET', person, 'rn', stamp) end
if aliases ~= '' then redis.call('HSET', person, 'ra', stamp) end
if redis.call('TTL', person) < 0 then redis.call('EXPIRE', person, keep) end
for i = ARGS + 1, first_sid - 1 do redis.call('ZADD', words, 0, ARGV[i]) end
for _, key in ipairs(to_change) do
  if #values > 0 then redis.call('HSET', key, unpack(values)) end
  if #cleared > 0 then redis.call('HDEL', key, unpack(cleared)) end
end
return {changed, stamp, missing, former}
