-- The present bucket and its place among KEYS. The caller can only guess what time it is here; where none of the keys is
-- the bucket's there is no place, and the caller asks again.
local function bucket_now(keys)
  local number = math.floor(instant_of(ARGV[1]) / ARGV[2])
  local place = ARGV[3] - number + 1
  return number, place >= 1 and place <= keys and place or nil
end
