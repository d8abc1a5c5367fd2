#!lua flags=allow-oom
-- Truncates the addresses of ended sessions: the last byte of IPv4 (/24), the last ten bytes of IPv6 (/48).
-- KEYS: 1 meta, then a record for each session
-- ARGV: 1 up to which end this run has come, ms
-- returns: how many records were changed
local meta, upto, changed = KEYS[1], ARGV[1], 0
local function truncate(address)
  if #address == 4 then return string.sub(address, 1, 3) .. '\0' end
  if #address == 16 then return string.sub(address, 1, 6) .. string.rep('\0', 10) end
  return address
end
redis.call('HLEN', meta)
for i = 2, #KEYS do
  local record = KEYS[i]
  local row = redis.pcall('HMGET', record, 'c', 'i', 'e')
  if not row.err then
    local core, last_address, end_reason = unpack(row)
    local new_core = core and #core > 40 and string.sub(core, 1, 40) .. truncate(string.sub(core, 41)) or core
    local new_address = last_address and truncate(last_address)
    if end_reason and (new_core ~= core or new_address ~= last_address) then
      if new_core ~= core then redis.call('HSET', record, 'c', new_core) end
      if new_address ~= last_address then redis.call('HSET', record, 'i', new_address) end
      changed = changed + 1
    end
  end
end
if tonumber(upto) > (tonumber(redis.call('HGET', meta, 'truncated') or '') or 0) then
  redis.call('HSET', meta, 'truncated', upto)
end
return changed
