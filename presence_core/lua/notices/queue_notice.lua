#!lua
-- Puts a notice about a login into the queue, once: a login that is odd in two ways is one notice of two kinds. It
-- names the device: later logins on it would hide which one it was.
-- include: notices/stored_notices
-- KEYS: 1 notices of the user 2 notice queue 3 devices of the user
-- ARGV: 1 now|'' 2 uid 3 id 4 session id 5 when the login was, ms 6 kind 7 seconds that a notice is kept
--   8 notices that a user gets in a day 9 users that may wait on this shard 10 seconds after which it is too old
--   11 where a move led to, JSON|''
-- returns: 1: it waits; 0: it was there, or another move of the session waits; -1: the user has had enough today;
--   -2: the queue is full; -3: it is too old
local notices, queue, known = unpack(KEYS)
local given_now, uid, id, sid, at, kind, keep, per_day, most, give_up, after = unpack(ARGV, 1, ARGS)
local now = clock(given_now)

-- Digests, in hex, of the device of this login; if it has logged in again, of those that have since. nil without any.
local function devices_of_login()
  local flat, exact, later = redis.pcall('HGETALL', known), {}, {}
  if kind == 'moved' or flat.err then return nil end
  for i = 1, #flat, 2 do
    local last = tonumber(flat[i + 1]) or 0
    local found = last == tonumber(at) and exact or kind == 'new_device' and last > tonumber(at) and later
    if found then
      found[#found + 1] = string.gsub(flat[i], '.', function(c) return string.format('%02x', string.byte(c)) end)
    end
  end
  return #exact > 0 and exact or #later > 0 and later or nil
end

local bad = foreign('HLEN', notices, 'ZCARD', queue)
if bad then return bad end
local stored, lapsed = read_stored(notices, now)
local notice = stored[id]
if notice then
  if notice.state ~= 'waiting' then return 0 end
  for _, other in ipairs(notice.kinds) do
    if other == kind then return 0 end
  end
  notice.kinds[#notice.kinds + 1] = kind
  store_changed(notices, queue, uid, stored, {[id] = true}, lapsed)
  return 1
end
for _, other in pairs(kind == 'moved' and stored or {}) do
  if other.state == 'waiting' and other.sid == sid and other.kinds[1] == 'moved' then return 0 end
end
if now - tonumber(at) >= tonumber(give_up) * 1000 then return -3 end
local today = 0 -- mails that wait, and those of the last 24 hours
for _, other in pairs(stored) do
  local waits, last = other.state == 'waiting' or other.state == 'sending', tonumber(other.claimed or other.at)
  if waits or other.state ~= 'link' and now - last < 86400000 then today = today + 1 end
end
if today >= tonumber(per_day) then return -1 end
if redis.call('ZCARD', queue) >= tonumber(most) and not redis.call('ZSCORE', queue, uid) then return -2 end

-- Nothing below can fail.
stored[id] = {sid = sid, at = at, kinds = {kind}, state = 'waiting', due = ms(now), devices = devices_of_login(),
              after = after ~= '' and cjson.decode(after) or nil,
              ['until'] = ms(now + tonumber(keep) * 1000)}
store_changed(notices, queue, uid, stored, {[id] = true}, lapsed)
return 1
