-- Turn records into tombstones, and take them out of facets and the index of addresses. An end
-- (include/sessions/end_session.lua) also has `record`, the record's key, and `row`, the values of RECORD_FIELDS.
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
    address_entries(row[2], row[9], e.ref, addresses)
    users[user] = true
    user.name, user.aliases = row[4] or user.name, row[5] or user.aliases
    local end_reason = e.how[2]
    keep[end_reason] = keep[end_reason] or tostring(policy.keep[end_reason]) -- a number is converted at each call
    write_tombstone(e.record, e.how, keep[end_reason])
  end
  for user in pairs(users) do keep_person(user, seconds) end
  change_facets(k.facets, sums)
  change_facets(k.recount, recounted)
  in_thousands(addresses, function(...) redis.pcall('ZREM', k.addresses, ...) end)
end
