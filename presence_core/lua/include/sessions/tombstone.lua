-- Turn records into tombstones, and take them out of facets and the index of addresses. An end
-- (include/sessions/end_session.lua) also has `record`, the record's key, `row`, the values of its fields, and
-- `is_noted`: `closing` had it.
-- include: shard_keys
-- include: facets
-- include: sessions/addresses

-- Remove these ends from `counted`, which is there only during a rebuild. Returns a 1 for each that was there.
local function remove_counted(k, ends)
  if count_or_zero(redis.pcall('SCARD', k.counted)) == 0 then return {} end
  local refs = {}
  for i, e in ipairs(ends) do refs[i] = e.ref end
  local found = redis.call('SMISMEMBER', k.counted, unpack(refs))
  for i, member in ipairs(found) do
    if member == 1 then redis.call('SREM', k.counted, refs[i]) end
  end
  return found
end

-- The name and aliases that a session leaves to its user. If search/update_person.lua changed them after its end
-- and before its tombstone is written, it leaves none: the new ones stay.
local function note_names(user, e)
  local name, aliases = e.row[R.name], e.row[R.aliases]
  if e.is_noted and (name or aliases) then
    user.renamed = user.renamed or redis.pcall('HMGET', user.person, 'rn', 'ra')
    local at = tonumber(e.how[4])
    if at <= tonumber(user.renamed[1] or -1) then name = nil end
    if at <= tonumber(user.renamed[2] or -1) then aliases = nil end
  end
  user.name, user.aliases = name or user.name, aliases or user.aliases
end

-- For `people`: the latest name and aliases that any session of a user gave.
local function keep_person(user, seconds)
  local name, aliases = user.name, user.aliases
  if name and aliases then
    redis.pcall('HSET', user.person, 'n', name, 'a', aliases)
  elseif name or aliases then
    redis.pcall('HSET', user.person, name and 'n' or 'a', name or aliases)
  end
  if name or aliases or user.card == 0 then redis.pcall('EXPIRE', user.person, seconds) end
end

local function write_tombstone(record, how, keep)
  if keep == '0' then
    redis.call('UNLINK', record)
  else
    redis.call('HSET', record, unpack(how))
    redis.call('EXPIRE', record, keep)
  end
end

local function write_tombstones(k, policy, ends)
  if #ends == 0 then return end
  local counted, keep, seconds = remove_counted(k, ends), {}, tostring(policy.people + 86400)
  local sums, recounted, addresses, users = {}, {}, {}, {}
  for i, e in ipairs(ends) do
    local user, row = e.user, e.row
    add_facets(sums, row, -1)
    if counted[i] == 1 then add_facets(recounted, row, -1) end
    address_entries(row[R.core], row[R.last_ip], e.ref, addresses)
    users[user] = true
    note_names(user, e)
    local end_reason = e.how[2]
    keep[end_reason] = keep[end_reason] or tostring(policy.keep[end_reason]) -- a number is converted at each call
    write_tombstone(e.record, e.how, keep[end_reason])
  end
  for user in pairs(users) do keep_person(user, seconds) end
  change_facets(k.facets, sums)
  change_facets(k.recount, recounted)
  in_thousands(addresses, function(...) redis.pcall('ZREM', k.addresses, ...) end)
end
