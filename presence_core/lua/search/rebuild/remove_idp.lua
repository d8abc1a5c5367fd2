#!lua flags=allow-oom
-- Remove entries from the index of identity providers whose session has ended, or has another link.
-- include: sessions/session_record
-- include: search/idp_entries
-- KEYS: 1 idp 2 sessions, then a record for each entry
-- ARGV: the entries
-- returns: how many were removed
local idp, sessions, removed = KEYS[1], KEYS[2], 0
redis.call('ZCARD', idp)
for i, entry in ipairs(ARGV) do
  local row = redis.pcall('HMGET', KEYS[2 + i], 's', 'c', 'e', 'l')
  local seen, core, end_reason, link = unpack(row)
  local ref = string.sub(entry, 18)
  local is_live = not row.err and is_intact(seen, core) and not end_reason and redis.call('ZSCORE', sessions, ref)
  local entries = is_live and idp_entries(link, ref) or {}
  if entry ~= entries[1] and entry ~= entries[2] then removed = removed + redis.call('ZREM', idp, entry) end
end
return removed
