#!lua flags=allow-oom
-- Remove entries from the index of addresses whose session has ended, or has another address.
-- include: sessions/session_record
-- include: sessions/addresses
-- KEYS: 1 addresses 2 sessions, then a record for each entry
-- ARGV: the entries: family, address, ref
-- returns: how many were removed
local addresses, sessions, removed = KEYS[1], KEYS[2], 0
redis.call('ZCARD', addresses)
for i, entry in ipairs(ARGV) do
  local row = redis.pcall('HMGET', KEYS[2 + i], 's', 'c', 'e', 'i')
  local seen, core, end_reason, latest = unpack(row)
  local ref = string.sub(entry, string.byte(entry) == 52 and 6 or 18)
  local is_live = not row.err and is_intact(seen, core) and not end_reason and redis.call('ZSCORE', sessions, ref)
  local entries = is_live and address_entries(core, latest, ref) or {}
  if entry ~= entries[1] and entry ~= entries[2] then
    removed = removed + redis.call('ZREM', addresses, entry)
  end
end
return removed
