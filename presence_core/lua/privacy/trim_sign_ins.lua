#!lua flags=allow-oom
-- Removes from sign-in histories what is older than it may be, and the city of those sign-ins that keep only the
-- country.
-- include: login/sign_ins
-- KEYS: the sign-ins of each user
-- ARGV: 1 now|'' 2 for how many ms they are kept|'' (until the key lapses) 3 for how many ms with the city|'' (as long)
-- returns: how many histories were changed
local given_now, keep_ms, city_ms = unpack(ARGV)
local now, keep = clock(given_now), tonumber(keep_ms)
local oldest, oldest_city = keep and now - keep or -1, city_ms ~= '' and now - tonumber(city_ms) or -1
local changed, history = 0, sign_in_history()
for _, key in ipairs(KEYS) do
  local value = redis.pcall('GET', key)
  local sign_ins = type(value) == 'string' and history.read(value) or {}
  local kept, is_changed = {}, false
  for _, sign_in in ipairs(sign_ins) do
    local at, flags, place, client = unpack(sign_in)
    if at <= oldest_city then place = string.match(place, '^[^\n]*') .. '\n' end
    is_changed = is_changed or at <= oldest or place ~= sign_in[3]
    if at > oldest then kept[#kept + 1] = {at, flags, place, client} end
  end
  if is_changed then
    changed = changed + 1
    if #kept > 0 then history.store(key, kept, keep) else redis.call('UNLINK', key) end
  end
end
return changed
