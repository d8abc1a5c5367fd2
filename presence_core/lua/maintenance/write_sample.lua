#!lua flags=allow-oom
-- Writes the sample of the ten seconds that have just ended, once, whichever worker comes first: into its own place,
-- and into the minute, the hour and the day around it. The counts of events are the growth of the totals since the
-- sample before; a total that fell, because its key was lost, has grown by nothing. After a gap, that growth is of an
-- unknown time between the two samples: it counts only in a record that holds all of this time. `watched` says of how
-- many slots a record has the counts.
-- include: clock
-- KEYS: 1 history 2 samples of 10 s 3 of a minute 4 of an hour 5 of a day, each of the period that holds this slot
-- ARGV: 1 now|'' 2 slot (ten seconds since the epoch) 3 users 4 sessions 5 unique users of the hour 6 of the day
--       7… the totals of KINDS, then for each key from the second on: where its record is, where its odd logins are,
--       where its watched slots are, where its failed sign-ins are, its full size, how long to keep it (s)
-- returns: 1 written, 0 it was there, -1 too late: a later slot has ended since
local FINE_KEY, COARSE_KEYS, HOUR_KEY, DAY_KEY = 2, {3, 4, 5}, 4, 5
local SLOTS = {[FINE_KEY] = 1, [3] = 6, [4] = 360, [5] = 8640} -- in a record
local FINE = '>I4I4I4I4I4I4I4I4' -- samples (1), users, sessions, then the five counts
local COARSE = '>I4I4I4I4I8I4I4I4I8I4I4I4I4I4I4' -- samples; users least, most, last, sum; sessions; five; uniques
local ODD = '>I4I4' -- logins on a new device, distant logins. Behind all records, and only written where not 0
local WATCHED = '>I2' -- 1 + the watched slots; 0: written by a version that did not note them
local FAILED = '>I4' -- sign-ins that failed. Only written where not 0
local MAX_UINT32 = 4294967295
local KINDS = {'login', 'logout', 'kicked', 'expired', 'replaced', 'new_device', 'distant', 'failed'}

local history = KEYS[1]
local given_now, given_slot, users, sessions, hourly_users, daily_users = unpack(ARGV, 1, ARGS)
local slot, totals = tonumber(given_slot), {unpack(ARGV, ARGS + 1, ARGS + #KINDS)}
if math.floor(clock(given_now) / 10000) - 1 ~= slot then return -1 end
local function whole(number) return math.max(0, math.min(tonumber(number), MAX_UINT32)) end
local function place(i)
  local first = ARGS + #KINDS + 6 * (i - FINE_KEY) + 1
  return {record = tonumber(ARGV[first]), odd = tonumber(ARGV[first + 1]), watched = tonumber(ARGV[first + 2]),
          failed = tonumber(ARGV[first + 3]), size = tonumber(ARGV[first + 4]), keep = tonumber(ARGV[first + 5])}
end
local function stored(i, at, layout)
  local packed = redis.call('GETRANGE', KEYS[i], at, at + struct.size(layout) - 1)
  return #packed == struct.size(layout) and {struct.unpack(layout, packed)} or {0}
end

-- All reads first: a key of a foreign type ends this before anything is written.
local before, coarse = redis.call('HMGET', history, unpack(KINDS)), {}
local slot_before = tonumber(redis.call('HGET', history, 'slot') or nil)
for _, i in ipairs(COARSE_KEYS) do coarse[i] = stored(i, place(i).record, COARSE) end
if stored(FINE_KEY, place(FINE_KEY).record, FINE)[1] > 0 then return 0 end

users, sessions = whole(users), whole(sessions)
local grown, noted = {}, {'slot', given_slot}
for i, kind in ipairs(KINDS) do
  grown[i] = whole(totals[i] - (tonumber(before[i] or totals[i]) or 0)) -- before the first sample no growth is known
  noted[#noted + 1], noted[#noted + 2] = kind, totals[i]
end

-- The slots that this sample has the counts of, for a record of so many slots: all since the sample before, if that is
-- in the same record or at the end of the record before; else none.
local function new_slots(number)
  if not slot_before or slot_before >= slot then return 1 end
  local begin = slot - slot % number
  return slot_before >= begin - 1 and slot - slot_before or 0
end

local function write(i, packed, watched, counts)
  local at = place(i)
  -- A new key gets its full size at once: a key that grows would be given up to twice the memory that it needs.
  if redis.call('EXISTS', KEYS[i]) == 0 then redis.call('SETRANGE', KEYS[i], at.size - 1, '\0') end
  redis.call('SETRANGE', KEYS[i], at.record, packed)
  if counts[6] + counts[7] > 0 then
    local odd = stored(i, at.odd, ODD)
    local new_devices, distant = whole(odd[1] + counts[6]), whole((odd[2] or 0) + counts[7])
    redis.call('SETRANGE', KEYS[i], at.odd, struct.pack(ODD, new_devices, distant))
  end
  if counts[8] > 0 then
    redis.call('SETRANGE', KEYS[i], at.failed, struct.pack(FAILED, whole(stored(i, at.failed, FAILED)[1] + counts[8])))
  end
  redis.call('SETRANGE', KEYS[i], at.watched, struct.pack(WATCHED, 1 + watched))
  redis.call('EXPIRE', KEYS[i], at.keep)
end
local NOTHING = {0, 0, 0, 0, 0, 0, 0, 0}

local new = new_slots(SLOTS[FINE_KEY])
local counts = new > 0 and grown or NOTHING
write(FINE_KEY, struct.pack(FINE, 1, users, sessions, unpack(counts, 1, 5)), new, counts)
for _, i in ipairs(COARSE_KEYS) do
  local r = coarse[i]
  if r[1] == 0 then r = {0, users, users, users, 0, sessions, sessions, sessions, 0, 0, 0, 0, 0, 0, 0} end
  new = new_slots(SLOTS[i])
  counts = new > 0 and grown or NOTHING
  local noted_slots = stored(i, place(i).watched, WATCHED)[1]
  local watched = (noted_slots > 0 and noted_slots - 1 or r[1]) + new
  local uniques = i == HOUR_KEY and whole(hourly_users) or i == DAY_KEY and whole(daily_users) or 0
  write(i, struct.pack(COARSE, r[1] + 1,
    math.min(r[2], users), math.max(r[3], users), users, r[5] + users,
    math.min(r[6], sessions), math.max(r[7], sessions), sessions, r[9] + sessions,
    whole(r[10] + counts[1]), whole(r[11] + counts[2]), whole(r[12] + counts[3]), whole(r[13] + counts[4]),
    whole(r[14] + counts[5]), uniques), math.min(watched, SLOTS[i]), counts)
end
redis.call('HSET', history, unpack(noted))
return 1
