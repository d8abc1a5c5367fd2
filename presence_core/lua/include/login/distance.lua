-- Whether two places are farther apart than a plane flies in a time.
local FASTEST, NEAREST = 900, 500 -- km/h; km: below this, the place of an address is not sure enough
local EARTH = 6371 -- radius, km
local REACH = math.ceil(math.pi * EARTH / FASTEST * 3600) -- seconds in which a plane gets anywhere

-- {latitude, longitude} of a place (models/places.py), in radians; nil if they are not known.
local function coordinates(place)
  local latitude, longitude = string.match(place, '^[^\n]*\n[^\n]*\n[^\n]*\n(%-?%d+),(%-?%d+)\n')
  return latitude and {math.rad(latitude), math.rad(longitude)}
end

-- km, along a great circle (haversine).
local function distance(from, to)
  local a = math.sin((to[1] - from[1]) / 2) ^ 2
    + math.cos(from[1]) * math.cos(to[1]) * math.sin((to[2] - from[2]) / 2) ^ 2
  return 2 * EARTH * math.asin(math.min(1, math.sqrt(a)))
end

local function is_distant(from, to, ms_between)
  local km = distance(from, to)
  return km > NEAREST and km > FASTEST * ms_between / 3600000
end
