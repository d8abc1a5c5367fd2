#!lua flags=no-writes
-- Read some fields of many hashes of a shard in one call. Their keys are derived: this script only reads.
-- include: read_derived
-- KEYS: 1 a key of the shard
-- ARGV: 1 how the keys begin 2 number of fields, the fields, then how each key ends
-- returns: {value|nil of each field, of each key}; of a missing key, or one of a foreign type, all are nil
local prefix, number = ARGV[1], tonumber(ARGV[2])
local fields, found, n = {unpack(ARGV, 3, number + 2)}, {}, 0
for i = number + 3, #ARGV do
  local row = read_derived('HMGET', prefix .. ARGV[i], unpack(fields))
  for field = 1, number do
    n = n + 1
    found[n] = row[field] or false
  end
end
return found
