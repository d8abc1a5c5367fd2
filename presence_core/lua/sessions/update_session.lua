#!lua
-- Change attributes, name, aliases and client of a live session. What is not given stays. Its facets follow, and it is
-- found by its new name. Entries of the old name in the index of words stay: search/rebuild/remove_words.lua removes
-- those that no other session of the user needs.
-- include: sessions/session_state
-- include: sessions/confirmed_clock
-- include: sessions/attributes
-- include: sessions/end_session
-- include: facets
-- include: login/labels
-- KEYS: 1 sessions 2 closing 3 meta 4 facets 5 recount 6 counted 7 record 8 labels 9 words 10 user's devices
-- ARGV: 1 now|'' 2 policy 3 uid 4 sid 5 digest of the secret|'' (by id) 6 bytes of all attributes, at most 7 declared
--       attributes among those given (facets.lua) 8 '=' and the name|'' (stays) 9 '=' and the aliases|''
--       10 client label that it must have|'' (the client stays) 11 text of that label 12 new client label 13 its text
--       14 label limit 15 number of new entries of the index of words, these, then for each attribute: name, name as
--       JSON, value as JSON|'' (removed)
-- returns: {state, row, how}, as sessions/validate.lua; of a live session {state, row, now, former name, aliases};
--          where nothing was changed {'too long'}: all attributes together; or {'other client'}: another label
local sessions, closing, meta, facets, recount, counted, record, labels, words, devices = unpack(KEYS, 1, 10)
local given_now, packed_policy, uid, sid, digest, most_bytes, given, name, aliases, old_label, old_client, label,
  client, max_labels, number_of_words = unpack(ARGV, 1, ARGS)
local now, policy, ref = clock(given_now), read_policy(packed_policy), uid .. ':' .. sid

-- include: tokens/asked_session
if state ~= LIVE then
  local is_overdue = state == ENDED and not how and not row[R.end_reason]
  if is_overdue and clock_is_confirmed(now, meta) then return {state, row, {}, 1} end
  return {state, row, how or {}}
end

if row[R.demand] then return {SIGN_IN_REQUIRED, row, {}} end

-- The client.
local new_labels, limited = {}, nil -- limited: what the limit per device is to count it by, '' for nothing
local before = {[R.core] = core, [R.client] = row[R.client], [R.agent] = row[R.agent], [R.place] = row[R.place],
                [R.declared] = redis.call('HGET', record, 'f')}
if old_label ~= '' then
  local has_label = string.sub(core, 33, 36) == old_label and (old_label ~= INLINE or row[R.client] == old_client)
  if not has_label then return {'other client'} end
  local ids, texts = {label, NO_LABEL}, {client, ''}
  new_labels = share_labels(labels, ids, texts, tonumber(max_labels))
  core = string.sub(core, 1, 32) .. ids[1] .. string.sub(core, 37)
  row[R.core], row[R.client] = core, texts[1] ~= '' and texts[1]
  local old_device, device = string.match(old_client, '^[^\n]*'), string.match(client, '^[^\n]*')
  if policy.devices and device ~= old_device and not is_on_behalf(sid) then
    local known = redis.call('HGET', devices, sid) or '' -- of a device with an id: its digest, which stays
    if known == old_device then limited = device end
  end
end

-- The attributes.
local first_word, changes, is_given = ARGS + 1, {}, {}
local first_attribute = first_word + number_of_words
for i = first_attribute, #ARGV, 3 do
  changes[#changes + 1], changes[#changes + 2] = ARGV[i + 1], ARGV[i + 2]
  is_given[ARGV[i]] = true
end
local old_attributes = row[R.attributes] or ''
local attributes = #changes > 0 and merge_attributes(old_attributes, changes) or old_attributes
if #attributes > #old_attributes and #attributes > tonumber(most_bytes) then return {'too long'} end

-- The declared attributes that are not given stay.
local declared = {}
for member in string.gmatch(before[R.declared] or '', '[^\n]+') do
  if not is_given[string.match(member, '^%Z*')] then declared[#declared + 1] = member end
end
for member in string.gmatch(declared_members(facets, given), '[^\n]+') do declared[#declared + 1] = member end
declared = table.concat(declared, '\n')

local bad = first_attribute > first_word and foreign('ZCARD', words) or limited and foreign('HLEN', devices)
if bad then return bad end

-- Nothing below can fail.
local function write(field, text)
  if text and text ~= '' then redis.call('HSET', record, field, text) else redis.call('HDEL', record, field) end
end
for i = first_word, first_attribute - 1 do redis.call('ZADD', words, 0, ARGV[i]) end
if #changes > 0 then
  write('x', attributes)
  write('f', declared)
  row[R.attributes] = attributes ~= '' and attributes
end
if old_label ~= '' then
  if #new_labels > 0 then
    redis.call('HSET', labels, unpack(new_labels))
    redis.pcall('HSETNX', facets, '-', PAD)
  end
  write('c', core)
  write('C', row[R.client])
  if limited == '' then
    redis.call('HDEL', devices, sid)
  elseif limited then
    redis.call('HSET', devices, sid, limited)
    extend_devices(policy, devices, core)
  end
end
local sums, old_name, old_aliases = {}, row[R.name], row[R.aliases]
add_facets(sums, before, -1)
add_facets(sums, {[R.core] = core, [R.client] = row[R.client], [R.agent] = row[R.agent], [R.place] = row[R.place],
                  [R.declared] = declared}, 1)
change_facets(facets, sums)
if redis.call('HGET', meta, 'recount') and redis.pcall('SISMEMBER', counted, ref) == 1 then
  change_facets(recount, sums)
end
if name ~= '' then
  row[R.name] = #name > 1 and string.sub(name, 2)
  write('n', row[R.name])
end
if aliases ~= '' then
  row[R.aliases] = #aliases > 1 and string.sub(aliases, 2)
  write('a', row[R.aliases])
end
return {state, row, now, old_name or '', old_aliases or ''}
