#!lua flags=no-writes
-- Counts the live sessions of some users, and in how many devices, networks and countries they are. Ends early where it
-- has read enough: the next call goes on.
-- include: clock
-- include: read_derived
-- include: sessions/on_behalf
-- include: search/time_budget
-- KEYS: 1 deadlines
-- ARGV: 1 now|'' 2 prefix of the users' keys 3 prefix of records 4 least sessions of a user who is counted
--       5… the users
-- returns: {users that were read, {uid, sessions, devices, networks, countries, …} of those with so many}
-- A device is its two labels, device with app and user agent; a network is a /24 or /48 of the address at login. Of one
-- user, the records of at most 200 sessions are read.
local MAX_RECORDS, MAX_SECONDS = 200, 0.0005
local deadlines = KEYS[1]
local given_now, user_prefix, record_prefix, least = unpack(ARGV, 1, 4)
local now, least_sessions = clock(given_now), tonumber(least)

local function live_refs(uid)
  local sids = read_derived('SMEMBERS', user_prefix .. uid)
  local refs = {}
  for _, sid in ipairs(sids.err and {} or sids) do
    if not is_on_behalf(sid) then refs[#refs + 1] = uid .. ':' .. sid end
  end
  if #refs == 0 then return refs end
  local live, due = {}, redis.call('ZMSCORE', deadlines, unpack(refs, 1, math.min(#refs, 1000)))
  for i = 1, #due do
    if due[i] and tonumber(due[i]) > now then live[#live + 1] = refs[i] end
  end
  return live
end

local function count_kinds(refs)
  local kinds, sizes = {{}, {}, {}}, {0, 0, 0}
  for i = 1, math.min(#refs, MAX_RECORDS) do
    local row = read_derived('HMGET', record_prefix .. refs[i], 'c', 'g')
    local core, place = row[1] or '', row[2] or ''
    local address = string.sub(core, 41)
    local values = {
      string.sub(core, 33, 40),
      #address == 4 and string.sub(address, 1, 3) or string.sub(address, 1, 6),
      string.match(place, '^[^\n]*'),
    }
    for kind, value in ipairs(values) do
      if value ~= '' and not kinds[kind][value] then
        kinds[kind][value] = true
        sizes[kind] = sizes[kind] + 1
      end
    end
  end
  return sizes
end

local found, read, records = {}, 0, 0
for i = 5, #ARGV do
  local uid = ARGV[i]
  read = read + 1
  local card = read_derived('SCARD', user_prefix .. uid)
  if type(card) == 'number' and card >= least_sessions then
    local refs = live_refs(uid)
    if #refs >= least_sessions then
      local sizes = count_kinds(refs)
      for _, value in ipairs({uid, #refs, sizes[1], sizes[2], sizes[3]}) do found[#found + 1] = value end
      records = records + #refs
    end
  end
  if records >= MAX_RECORDS or seconds_used(read + records) > MAX_SECONDS then break end
end
return {read, found}
