#!lua flags=allow-oom
-- Writes down the ten seconds that have just ended, once, whoever comes: into their own place, and into the minute, the
-- hour and the day around them. What happened is what the totals have grown by since the sample before; a total that
-- fell (its key was lost) has grown by nothing.
-- include: time
-- KEYS: 1 history 2 samples of 10 s 3 of a minute 4 of an hour 5 of a day, each of the period that holds this slot
-- ARGV: 1 now|'' 2 slot (ten seconds since the epoch) 3 users 4 sessions 5 total of logins 6 logouts 7 kicked 8 expired
--       9 replaced 10 unique users of the hour 11 of the day
--       12… for each key from the second on: where in it, its full size, how long to keep it (s)
-- returns: 1 written, 0 it had been, -1 too late: other ten seconds have ended since
local KINDS = {'login', 'logout', 'kicked', 'expired', 'replaced'}
local FINE = '>I4I4I4I4I4I4I4I4' -- samples (1), users, sessions, then the five counts
local COARSE = '>I4I4I4I4I8I4I4I4I8I4I4I4I4I4I4' -- samples; users least, most, last, sum; sessions the same; five; uniques
local MOST = 4294967295

local slot = tonumber(ARGV[2])
if math.floor(clock(ARGV[1]) / 10000) - 1 ~= slot then return -1 end
local function whole(text) return math.max(0, math.min(tonumber(text), MOST)) end
local function place(i) return tonumber(ARGV[6 + 3 * i]), tonumber(ARGV[7 + 3 * i]), tonumber(ARGV[8 + 3 * i]) end

-- All reads first: a key of a foreign type ends this before anything is written.
local before = redis.call('HMGET', KEYS[1], unpack(KINDS))
local olds = {}
for i = 2, 5 do
  local at = place(i)
  olds[i] = redis.call('GETRANGE', KEYS[i], at, at + (i == 2 and 32 or 68) - 1)
end
if #olds[2] == 32 and struct.unpack('>I4', olds[2]) > 0 then return 0 end

local users, sessions, grown, noted = whole(ARGV[3]), whole(ARGV[4]), {}, {'slot', ARGV[2]}
for i, kind in ipairs(KINDS) do
  local last = tonumber(before[i] or ARGV[4 + i]) or 0 -- before the first sample nothing is known to have happened
  grown[i] = whole(tonumber(ARGV[4 + i]) - last)
  noted[#noted + 1] = kind
  noted[#noted + 1] = ARGV[4 + i]
end

local function write(i, packed)
  local at, size, keep = place(i)
  -- A new key gets its full size at once: one that grows would be given up to twice what it needs.
  if redis.call('EXISTS', KEYS[i]) == 0 then redis.call('SETRANGE', KEYS[i], size - 1, '\0') end
  redis.call('SETRANGE', KEYS[i], at, packed)
  redis.call('EXPIRE', KEYS[i], keep)
end

write(2, struct.pack(FINE, 1, users, sessions, unpack(grown)))
for i = 3, 5 do
  local r = #olds[i] == 68 and {struct.unpack(COARSE, olds[i])} or {0}
  if r[1] == 0 then r = {0, users, users, users, 0, sessions, sessions, sessions, 0, 0, 0, 0, 0, 0, 0} end
  local uniques = i == 4 and whole(ARGV[10]) or i == 5 and whole(ARGV[11]) or 0
  write(i, struct.pack(COARSE, r[1] + 1,
    math.min(r[2], users), math.max(r[3], users), users, r[5] + users,
    math.min(r[6], sessions), math.max(r[7], sessions), sessions, r[9] + sessions,
    whole(r[10] + grown[1]), whole(r[11] + grown[2]), whole(r[12] + grown[3]), whole(r[13] + grown[4]),
    whole(r[14] + grown[5]), uniques))
end
redis.call('HSET', KEYS[1], unpack(noted))
return 1
