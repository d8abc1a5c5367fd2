#!lua flags=no-writes
-- What `health` asks of a shard: how long its lists are, all in one moment, and which commands the caller may not run on
-- its keys. Redis is only asked whether it would permit them; none is run.
-- KEYS: 1 a key of the tag that is asked about 2… lists whose length is wanted
-- ARGV: 1 the slot of the tag, on a cluster|'' 2… commands in lower case; those that name no key as they are written,
--       `time` or `script load`
-- returns: {{length|-1 where it cannot be told, …}, {commands that are refused, …}, 1 if it could be asked|0,
--           keys of the slot|-1}
local lengths, refused, keys = {}, {}, -1
for i = 2, #KEYS do
  local length = redis.pcall('ZCARD', KEYS[i])
  lengths[i - 1] = type(length) == 'number' and length or -1
end
if not redis.acl_check_cmd then return {lengths, refused, 0, keys} end
if ARGV[1] ~= '' then
  local known, may = pcall(redis.acl_check_cmd, 'cluster', 'countkeysinslot', ARGV[1])
  local number = known and may and redis.pcall('CLUSTER', 'COUNTKEYSINSLOT', ARGV[1])
  keys = type(number) == 'number' and number or -1
end
local without_key = {['time'] = {'TIME'}, ['script load'] = {'SCRIPT', 'LOAD', ''}}
for i = 2, #ARGV do
  local name = ARGV[i]
  local words = without_key[name] or {name, KEYS[1]}
  if name == 'xinfo' then words = {'XINFO', 'STREAM', KEYS[1]} end
  if name == 'evalsha' or name == 'evalsha_ro' then words = {name, 'x', '1', KEYS[1]} end
  local known, may = pcall(redis.acl_check_cmd, unpack(words))
  if known and not may then refused[#refused + 1] = name end
end
return {lengths, refused, 1, keys}
