-- Find in the index of session ids (session_ids.lua).
-- include: clock
local MAX_SAME_TIME = 1000

-- A function that returns the login times of the entries that a digest has, one a call.
local function logins_of(ids, digest)
  local bucket, mark, at = redis.call('HGET', ids, string.sub(digest, 1, 2)) or '', string.sub(digest, 3, 4), 0
  return function()
    repeat
      at = string.find(bucket, mark, at + 1, true)
    until not at or at % 8 == 1
    return at and struct.unpack('>I8', '\0\0' .. string.sub(bucket, at + 2, at + 7)) or nil
  end
end

-- How many entries a session with this id may have.
local function count_session_id(ids, digest)
  local number = 0
  for _ in logins_of(ids, digest) do number = number + 1 end
  return number
end

-- The refs of sessions with this id, or, where it ends with an asterisk, with this start of an id of 22 characters; and
-- how many entries were read.
local function find_session_id(ids, sessions, digest, sid)
  local refs, read, tail = {}, 0, ':' .. sid
  local first, last = -#tail, -1
  if string.sub(sid, -1) == '*' then
    tail = string.sub(tail, 1, -2)
    first, last = -23, #tail - 24
  end
  for login in logins_of(ids, digest) do
    local time = ms(login)
    for _, ref in ipairs(redis.call('ZRANGE', sessions, time, time, 'BYSCORE', 'LIMIT', 0, MAX_SAME_TIME)) do
      read = read + 1
      if string.sub(ref, first, last) == tail then refs[#refs + 1] = ref end
    end
  end
  return refs, read
end
