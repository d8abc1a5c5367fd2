#!lua flags=no-writes
-- For health: the lengths of this shard's lists at one time, and which commands the caller may not run on its keys.
-- Redis is only asked whether it permits them; none of them is run.
-- KEYS: 1 a key of the tag that is examined 2… lists
-- ARGV: 1 the slot of the tag, on a cluster|'' 2 another key of the tag: may the caller write it?
--   3… commands in lower case; those that name no key: `time`, `script load`
-- returns: {{length|-1: unknown, …}, {commands that are refused, …}, 1: permissions could be asked|0,
--           keys of the slot|-1: unknown, {commands that the server does not have, …}, 1: may write that key|0}
local key, slot, other = KEYS[1], ARGV[1], ARGV[2]
local lengths, refused, keys_of_slot, missing = {}, {}, -1, {}
for i = 2, #KEYS do
  local length = redis.pcall('ZCARD', KEYS[i])
  lengths[i - 1] = type(length) == 'number' and length or -1
end
if not redis.acl_check_cmd then return {lengths, refused, 0, keys_of_slot, missing, 0} end

local function permits(...) -- nil: the server does not know the command
  local is_known, permitted = pcall(redis.acl_check_cmd, ...)
  if is_known then return permitted end
end
if slot ~= '' and permits('cluster', 'countkeysinslot', slot) then
  local number = redis.pcall('CLUSTER', 'COUNTKEYSINSLOT', slot)
  if type(number) == 'number' then keys_of_slot = number end
end
local example = { -- a call of each command that takes no key, or more than a key
  ['time'] = {'TIME'}, ['script load'] = {'SCRIPT', 'LOAD', ''}, ['xinfo'] = {'XINFO', 'STREAM', key},
  ['evalsha'] = {'evalsha', 'x', '1', key}, ['evalsha_ro'] = {'evalsha_ro', 'x', '1', key},
}
for i = 3, #ARGV do
  local name = ARGV[i]
  local permitted = permits(unpack(example[name] or {name, key}))
  if permitted == false then refused[#refused + 1] = name end
  if permitted == nil then missing[#missing + 1] = name end
end
return {lengths, refused, 1, keys_of_slot, missing, permits('hset', other) and 1 or 0}
