-- Turn records into tombstones, and take them out of facets and the index of addresses. An end
-- (include/sessions/end_session.lua) also has `record`, the record's key, and `row`, the values of RECORD_FIELDS.
-- include: shard_keys
-- include: facets
-- include: sessions/addresses

-- Remove these refs from `counted`. Returns a 1 for each that was there.
local function remove_counted(k, refs)
  local found = redis.pcall('SMISMEMBER', k.counted, unpack(refs))
  if found.err then return {} end
  for i, member in ipairs(found) do
    if member == 1 then redis.call('SREM', k.counted, refs[i]) end
  end
  return found
end

-- For `people`: the latest name and aliases that any session of a user gave.
local function keep_person(policy, user)
  local fields = add_given({}, {n = user.name, a = user.aliases})
  if #fields > 0 then redis.pcall('HSET', user.person, unpack(fields)) end
  if #fields > 0 or user.card == 0 then redis.pcall('EXPIRE', user.person, policy.people + 86400) end
end

local function write_tombstone(record, how, keep)
  if keep == 0 then
    redis.call('UNLINK', record)
  else
    redis.call('HSET', record, unpack(how))
    redis.call('EXPIRE', record, keep)
  end
end

local function write_tombstones(k, policy, ends)
  if #ends == 0 then return end
  local sums, recounted, refs, addresses, users = {}, {}, {}, {}, {}
  for i, e in ipairs(ends) do refs[i] = e.ref end
  local counted = remove_counted(k, refs)
  for i, e in ipairs(ends) do
    add_facets(sums, e.row, -1)
    if counted[i] == 1 then add_facets(recounted, e.row, -1) end
    for _, entry in ipairs(address_entries(e.row[2], e.row[9], e.ref)) do addresses[#addresses + 1] = entry end
    users[e.user] = true
    e.user.name, e.user.aliases = e.row[4] or e.user.name, e.row[5] or e.user.aliases
    write_tombstone(e.record, e.how, policy.keep[e.how[2]])
  end
  for user in pairs(users) do keep_person(policy, user) end
  change_facets(k.facets, sums)
  change_facets(k.recount, recounted)
  in_thousands(addresses, function(...) redis.pcall('ZREM', k.addresses, ...) end)
end
