#!lua flags=allow-oom
-- Takes the end off the addresses of sessions that are over: of IPv4 the last byte (/24), of IPv6 the last ten (/48).
-- KEYS: 1 meta, then a record for each session
-- ARGV: 1 up to when ends have been looked at now, ms
-- returns: how many records were changed
local function cut(address)
  if #address == 4 then return string.sub(address, 1, 3) .. '\0' end
  if #address == 16 then return string.sub(address, 1, 6) .. string.rep('\0', 10) end
  return address
end
redis.call('HLEN', KEYS[1])
local changed = 0
for i = 2, #KEYS do
  local row = redis.pcall('HMGET', KEYS[i], 'c', 'i', 'e')
  if not row.err and row[3] then
    local fields = {}
    local core = row[1] and #row[1] > 40 and string.sub(row[1], 1, 40) .. cut(string.sub(row[1], 41))
    if core and core ~= row[1] then fields = {'c', core} end
    if row[2] and cut(row[2]) ~= row[2] then
      fields[#fields + 1] = 'i'
      fields[#fields + 1] = cut(row[2])
    end
    if #fields > 0 then
      redis.call('HSET', KEYS[i], unpack(fields))
      changed = changed + 1
    end
  end
end
local done = tonumber(redis.call('HGET', KEYS[1], 'truncated') or '') or 0
if tonumber(ARGV[1]) > done then redis.call('HSET', KEYS[1], 'truncated', ARGV[1]) end
return changed
