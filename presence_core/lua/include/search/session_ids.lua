-- Sessions by their id. A hash of 4096 buckets, each a text of 8 bytes per session: 2 of a digest of the id, 6 of the
-- login time (ms), which finds the session in the list. Entries may be stale: each login removes some.
-- include: clock

local MOST_SAME_TIME = 1000

-- The bucket of an id, and the first bytes of its entries. `digest`: 4 bytes.
local function bucket_of(digest)
  local number = struct.unpack('>I2', digest)
  return struct.pack('>I2', number % 4096), string.sub(digest, 3, 4)
end

-- A function that returns the entries of a bucket that begin with `start`, one a call.
local function entries_of(bucket, start)
  local at = 0
  return function()
    repeat
      at = string.find(bucket, start, at + 1, true)
    until not at or at % 8 == 1
    return at and string.sub(bucket, at, at + 7)
  end
end

local function login_of_entry(entry)
  return (struct.unpack('>I8', '\0\0' .. string.sub(entry, 3)))
end

-- Add a session; nothing here fails. Returns whether it was missing. The bucket's two oldest entries are checked: those
-- whose sessions have ended go, the others move to its end. So at most half of a bucket is stale, or two entries.
local function add_session_id(ids, sessions, digest, login)
  local field, mark = bucket_of(digest)
  local bucket, new = redis.pcall('HGET', ids, field), mark .. string.sub(struct.pack('>I8', login), 3)
  if type(bucket) == 'table' then return false end
  bucket = bucket or ''
  if entries_of(bucket, new)() then return false end
  local kept = {string.sub(bucket, 17)}
  for at = 1, math.min(#bucket, 16), 8 do
    local entry = string.sub(bucket, at, at + 7)
    local time = ms(login_of_entry(entry))
    if redis.call('ZCOUNT', sessions, time, time) > 0 then kept[#kept + 1] = entry end
  end
  kept[#kept + 1] = new
  redis.call('HSET', ids, field, table.concat(kept))
  return true
end

-- How many entries a session with this id may have.
local function count_session_id(ids, digest)
  local field, mark = bucket_of(digest)
  local number = 0
  for _ in entries_of(redis.call('HGET', ids, field) or '', mark) do number = number + 1 end
  return number
end

-- The refs of sessions with this id, and how many entries were read.
local function find_session_id(ids, sessions, digest, sid)
  local field, mark = bucket_of(digest)
  local refs, read, tail = {}, 0, ':' .. sid
  for entry in entries_of(redis.call('HGET', ids, field) or '', mark) do
    local login = ms(login_of_entry(entry))
    for _, ref in ipairs(redis.call('ZRANGE', sessions, login, login, 'BYSCORE', 'LIMIT', 0, MOST_SAME_TIME)) do
      read = read + 1
      if string.sub(ref, -#tail) == tail then refs[#refs + 1] = ref end
    end
  end
  return refs, read
end
