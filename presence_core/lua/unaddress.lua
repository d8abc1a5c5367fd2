#!lua flags=allow-oom
-- Takes entries out of the index of addresses whose session has ended, or has another address.
-- include: record
-- include: facets
-- KEYS: 1 addresses 2 sessions, then a record for each entry
-- ARGV: the entries: family, address, ref
-- returns: how many went
local gone = 0
redis.call('ZCARD', KEYS[1])
for i, entry in ipairs(ARGV) do
  local row = redis.pcall('HMGET', KEYS[2 + i], 's', 'c', 'e')
  local ref = string.sub(entry, string.byte(entry) == 52 and 6 or 18)
  local live = not row.err and sound(row[1], row[2]) and not row[3] and redis.call('ZSCORE', KEYS[2], ref)
  if not live or (indexed_address(row[2]) or '') .. ref ~= entry then gone = gone + redis.call('ZREM', KEYS[1], entry) end
end
return gone
