-- Add to the index of session ids. It is a hash of buckets, each a text of 8 bytes per session: 2 of a digest of the
-- id, 6 of the login time (ms), which finds the session in the list. Entries may be stale. `digest`: 4 bytes, bucket
-- and first two bytes of the entry.
-- include: clock

-- Remove the oldest entries of a bucket until one is live; that one moves to the end. To look for a session takes
-- longer than all the rest, so this is done only where a bucket is twice as long as the number of sessions explains.
local MAX_REMOVED = 8
local usual -- entries of a bucket, as there are sessions; read once
local function remove_stale_ids(ids, sessions, bucket)
  if #bucket <= 16 then return bucket end
  usual = usual or redis.call('ZCARD', sessions) / math.max(1, redis.call('HLEN', ids))
  if #bucket <= 8 * (2 * usual + 2) then return bucket end
  for at = 1, 8 * MAX_REMOVED, 8 do
    local oldest = string.sub(bucket, at, at + 7)
    if oldest == '' then return '' end
    local login = ms((struct.unpack('>I8', '\0\0' .. string.sub(oldest, 3))))
    if #redis.call('ZRANGE', sessions, login, login, 'BYSCORE', 'LIMIT', 0, 1) > 0 then
      return string.sub(bucket, at + 8) .. oldest
    end
  end
  return string.sub(bucket, 8 * MAX_REMOVED + 1)
end

-- Add a session; nothing here fails. Returns whether it was missing.
local function add_session_id(ids, sessions, digest, login)
  local field, new = string.sub(digest, 1, 2), string.sub(digest, 3) .. string.sub(struct.pack('>I8', login), 3)
  local bucket = redis.pcall('HGET', ids, field) or ''
  if type(bucket) == 'table' then return false end
  local at = string.find(bucket, new, 1, true)
  if at and at % 8 == 1 then return false end
  redis.call('HSET', ids, field, remove_stale_ids(ids, sessions, bucket) .. new)
  return true
end
