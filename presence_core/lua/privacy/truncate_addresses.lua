#!lua flags=allow-oom
-- Truncates the addresses of ended sessions: the last byte of IPv4 (/24), the last ten bytes of IPv6 (/48). Of places
-- (models/places.py) country and network stay.
-- KEYS: 1 meta, then a record for each session
-- ARGV: 1 up to which end this run has come, ms
-- returns: how many records were changed
local meta, upto, changed = KEYS[1], ARGV[1], 0
local function truncate(address)
  if #address == 4 then return string.sub(address, 1, 3) .. '\0' end
  if #address == 16 then return string.sub(address, 1, 6) .. string.rep('\0', 10) end
  return address
end
local function without_city(place)
  return (string.gsub(place, '^([^\n]*\n[^\n]*\n[^\n]*\n).*$', '%1\n'))
end
-- Field 'o' of a distant login (odd_login.lua) has the place of the login before.
local function without_last_city(odd)
  if bit.band(string.byte(odd) or 0, FLAG_DISTANT) == 0 then return odd end
  return string.sub(odd, 1, 9) .. without_city(string.sub(odd, 10))
end
-- Field 'w' (moves/note_move.lua) has a place in lines 1 to 5, and of a session that has moved in 10 to 14 and 18 to
-- 22.
local function without_move_cities(move)
  local lines = {}
  for line in string.gmatch(move .. '\n', '([^\n]*)\n') do lines[#lines + 1] = line end
  for _, first in ipairs({1, 10, 18}) do
    if lines[first + 4] then lines[first + 3], lines[first + 4] = '', '' end
  end
  return table.concat(lines, '\n')
end
redis.call('HLEN', meta)
for i = 2, #KEYS do
  local record = KEYS[i]
  local row = redis.pcall('HMGET', record, 'e', 'c', 'i', 'g', 'o', 'w')
  if not row.err and row[1] then
    local core, address, place, odd, move = unpack(row, 2)
    local new = {
      c = core and #core > 40 and string.sub(core, 1, 40) .. truncate(string.sub(core, 41)) or core,
      i = address and truncate(address),
      g = place and without_city(place),
      o = odd and without_last_city(odd),
      w = move and without_move_cities(move),
    }
    local given = {}
    for field, old in pairs({c = core, i = address, g = place, o = odd, w = move}) do
      if old and new[field] ~= old then given[#given + 1], given[#given + 2] = field, new[field] end
    end
    if #given > 0 then
      redis.call('HSET', record, unpack(given))
      changed = changed + 1
    end
  end
end
if tonumber(upto) > (tonumber(redis.call('HGET', meta, 'truncated') or '') or 0) then
  redis.call('HSET', meta, 'truncated', upto)
end
return changed
