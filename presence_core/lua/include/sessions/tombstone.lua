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
local function keep_person(policy, user, row)
  if row[4] then redis.pcall('HSET', user.person, 'n', row[4]) end
  if row[5] then redis.pcall('HSET', user.person, 'a', row[5]) end
  if row[4] or row[5] or user.card == 0 then redis.pcall('EXPIRE', user.person, policy.people + 86400) end
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
  local sums, recounted, refs, addresses = {}, {}, {}, {}
  for i, e in ipairs(ends) do refs[i] = e.ref end
  local counted = remove_counted(k, refs)
  for i, e in ipairs(ends) do
    add_facets(sums, e.row, -1)
    if counted[i] == 1 then add_facets(recounted, e.row, -1) end
    for _, entry in ipairs(address_entries(e.row[2], e.row[9], e.ref)) do addresses[#addresses + 1] = entry end
    keep_person(policy, e.user, e.row)
    write_tombstone(e.record, e.how, policy.keep[e.how[2]])
  end
  change_facets(k.facets, sums)
  change_facets(k.recount, recounted)
  in_thousands(addresses, function(...) redis.pcall('ZREM', k.addresses, ...) end)
end
