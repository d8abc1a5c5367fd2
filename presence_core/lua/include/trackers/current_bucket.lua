-- The number of the present bucket, and its place among `keys` keys of which the first is bucket `newest`. The caller
-- can only guess the time of this server: where the bucket has no key the place is nil, and the caller asks again.
-- include: trackers/clock_seconds
local function current_bucket(given, seconds, newest, keys)
  local number = math.floor(clock_seconds(given) / seconds)
  local place = newest - number + 1
  return number, place >= 1 and place <= keys and place or nil
end
