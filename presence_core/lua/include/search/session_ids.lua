-- Sessions by their id. A hash of 4096 buckets, each a text of 8 bytes per session: 2 of a digest of the id, 6 of the
-- login time (ms), which finds the session in the list. Entries may be stale: each login removes some.
-- include: clock
local MOST_SAME_TIME = 1000

-- The bucket of an id, and the first bytes of its entries. `digest`: 4 bytes.
local function bucket_of(digest)
  local number = struct.unpack('>I2', digest)
  return struct.pack('>I2', number % 4096), string.sub(digest, 3, 4)
end

-- A function that returns the login times of a bucket's entries that begin with `mark`, one a call.
local function logins_of(bucket, mark)
  local at = 1
  return function()
    while bucket and at + 7 <= #bucket do
      at = at + 8
      if string.sub(bucket, at - 8, at - 7) == mark then
        return (struct.unpack('>I8', '\0\0' .. string.sub(bucket, at - 6, at - 1)))
      end
    end
  end
end

-- Check the oldest entries of a bucket. Those whose sessions have ended go, the others move to its end.
local MOST_CHECKED = 8
local function remove_ended_ids(ids, sessions)
  local field = redis.call('HRANDFIELD', ids)
  local bucket, kept, at = redis.call('HGET', ids, field), {}, 1
  while at <= 8 * MOST_CHECKED and at + 7 <= #bucket do
    local entry = string.sub(bucket, at, at + 7)
    local time = ms((struct.unpack('>I8', '\0\0' .. string.sub(entry, 3))))
    if redis.call('ZCOUNT', sessions, time, time) > 0 then kept[#kept + 1] = entry end
    at = at + 8
  end
  local rest = string.sub(bucket, at) .. table.concat(kept)
  if rest == '' then redis.call('HDEL', ids, field) else redis.call('HSET', ids, field, rest) end
end

-- Add a session; one in four removes some whose sessions have ended, so that they are at most half of all. Returns
-- whether it was missing. Nothing here fails.
local function add_session_id(ids, sessions, digest, login)
  local field, mark = bucket_of(digest)
  local bucket = redis.pcall('HGET', ids, field)
  if type(bucket) == 'table' then return false end
  for known in logins_of(bucket, mark) do
    if known == login then return false end
  end
  redis.call('HSET', ids, field, (bucket or '') .. mark .. string.sub(struct.pack('>I8', login), 3))
  if string.byte(digest, 4) % 4 == 0 then remove_ended_ids(ids, sessions) end
  return true
end

-- How many entries a session with this id may have.
local function count_session_id(ids, digest)
  local field, mark = bucket_of(digest)
  local number, bucket = 0, redis.call('HGET', ids, field)
  for _ in logins_of(bucket, mark) do number = number + 1 end
  return number
end

-- The refs of sessions with this id, and how many entries were read.
local function find_session_id(ids, sessions, digest, sid)
  local field, mark = bucket_of(digest)
  local refs, read, bucket, tail = {}, 0, redis.call('HGET', ids, field), ':' .. sid
  for login in logins_of(bucket, mark) do
    for _, ref in ipairs(redis.call('ZRANGE', sessions, ms(login), ms(login), 'BYSCORE', 'LIMIT', 0, MOST_SAME_TIME)) do
      read = read + 1
      if string.sub(ref, -#tail) == tail then refs[#refs + 1] = ref end
    end
  end
  return refs, read
end
