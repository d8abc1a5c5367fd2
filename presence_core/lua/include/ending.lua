-- How a session ends, in every script that ends one. Two halves:
--   drop   takes sessions out of the lists and counts their ends: from here on they are dead to everyone;
--   bury   turns records into tombstones and takes them out of facets and the index of addresses. A script that does
--          not declare the records' keys leaves lines in `closing` instead, and tidy.lua buries later. Nothing between
--          the two shows a dead session as live.
-- An end is {user, sid, ref, how}: user = {uid, live, devices, ended, person (the keys of Shard.of_user), card}, how a
-- flat list of END_FIELDS and values, {'e', reason, 'ea', at, 'ec', cause, …}. To be buried it also has record (its key)
-- and row (what BURIED names of it).

local BURIED = {'s', 'c', 'e', 'n', 'a', 'C', 'A', 'f'}
local MOST_ENDED = 100 -- ends that are listed per user

-- The first keys of each of these scripts: Shard.lists.
local function shard_keys()
  return {sessions = KEYS[1], deadlines = KEYS[2], users = KEYS[3], people = KEYS[4], closing = KEYS[5],
          ended = KEYS[6], events = KEYS[7], totals = KEYS[8], meta = KEYS[9], addresses = KEYS[10],
          facets = KEYS[11], recount = KEYS[12], counted = KEYS[13]}, 13
end

local function user_keys(uid, first)
  return {uid = uid, live = KEYS[first], devices = KEYS[first + 1], ended = KEYS[first + 2], person = KEYS[first + 3]}
end

-- Packed by Settings.policy.
local function read_policy(packed)
  local kicked, replaced, expired, logout, people, events, audit, ttl, devices =
    struct.unpack('>I4I4I4I4I4I4I4I4I4', packed)
  return {keep = {kicked = kicked, replaced = replaced, expired = expired, logout = logout}, people = people,
          longest = math.max(kicked, replaced, expired, logout), events = events, audit = audit, ttl = ttl == 1,
          devices = devices == 1}
end

-- Whether Redis did not run a command because the ACL user may not.
local function refused(err)
  return string.find(err, 'ACL failure', 1, true) or string.find(err, "can't run this command", 1, true)
end

-- A Lua error rolls nothing back. So before a script ends anything it makes sure that the keys it is going to write are
-- of their types. Answers an error to return, or nil.
local function foreign(...)
  for i = 1, select('#', ...), 2 do
    local command, key = select(i, ...)
    local reply = redis.pcall(command, key)
    if type(reply) == 'table' and reply.err then
      if not string.find(reply.err, 'WRONGTYPE', 1, true) then return reply end
      return redis.error_reply('WRONGTYPE ' .. key .. ' holds what presence_core never wrote')
    end
  end
end

local function foreign_shard(k)
  return foreign('ZCARD', k.sessions, 'ZCARD', k.deadlines, 'ZCARD', k.users, 'ZCARD', k.people, 'HLEN', k.closing,
                 'ZCARD', k.ended, 'XLEN', k.events, 'HLEN', k.totals)
end

local function in_thousands(items, act)
  for first = 1, #items, 1000 do act(unpack(items, first, math.min(first + 999, #items))) end
end

-- How many members a SET took or lost; none where another program's value stands in its place.
local function set_size(reply) return type(reply) == 'number' and reply or 0 end

local function drop(k, policy, ends)
  if #ends == 0 then return end
  local refs, users, counts, ended, offline, people = {}, {}, {}, {}, {}, {}
  for i, e in ipairs(ends) do
    local user, reason, at = e.user, e.how[2], e.how[4]
    refs[i] = e.ref
    if not user.gone then
      user.gone, user.over = {}, {}
      users[#users + 1] = user
    end
    user.gone[#user.gone + 1] = e.sid
    counts[reason] = (counts[reason] or 0) + 1
    if policy.keep[reason] > 0 then
      local n, own = #ended, user.over
      ended[n + 1], ended[n + 2] = at, e.ref
      n = #own
      own[n + 1], own[n + 2] = at, e.ref
    end
    redis.call('XADD', k.events, 'MAXLEN', '~', policy.events, '*', 'k', reason, 'r', e.ref, 'a', at)
  end
  in_thousands(refs, function(...)
    redis.call('ZREM', k.sessions, ...)
    redis.call('ZREM', k.deadlines, ...)
  end)
  for _, user in ipairs(users) do
    user.card = user.card - set_size(redis.pcall('SREM', user.live, unpack(user.gone)))
    if policy.devices then redis.pcall('HDEL', user.devices, unpack(user.gone)) end
    if #user.over > 0 then -- the user's own list: only readers want it, so a foreign type there hinders nobody
      redis.pcall('ZADD', user.ended, unpack(user.over))
      redis.pcall('ZREMRANGEBYRANK', user.ended, 0, -MOST_ENDED - 1)
      redis.pcall('EXPIRE', user.ended, policy.longest)
    end
    if user.card == 0 then offline[#offline + 1] = user.uid end
  end
  in_thousands(ended, function(...) redis.call('ZADD', k.ended, ...) end)
  in_thousands(offline, function(...)
    local uids = {...}
    for i, seen in ipairs(redis.call('ZMSCORE', k.users, ...)) do
      if seen then
        people[#people + 1] = seen
        people[#people + 1] = uids[i]
      end
    end
    redis.call('ZREM', k.users, ...)
  end)
  in_thousands(people, function(...) redis.call('ZADD', k.people, ...) end)
  for reason, n in pairs(counts) do redis.call('HINCRBY', k.totals, reason, n) end
end

-- Name and aliases of those who go offline, for `people`: the latest that any of their sessions gave.
local function remember(policy, user, row)
  if row[4] then redis.pcall('HSET', user.person, 'n', row[4]) end
  if row[5] then redis.pcall('HSET', user.person, 'a', row[5]) end
  if row[4] or row[5] or user.card == 0 then redis.pcall('EXPIRE', user.person, policy.people + 86400) end
end

local function bury(k, policy, ends)
  if #ends == 0 then return end
  local sums, again, refs, addresses = {}, {}, {}, {}
  for i, e in ipairs(ends) do refs[i] = e.ref end
  local counted = counted_already(k, refs)
  for i, e in ipairs(ends) do
    local row, keep = e.row, policy.keep[e.how[2]]
    add_facets(sums, row, -1)
    if counted[i] == 1 then add_facets(again, row, -1) end
    local address = indexed_address(row[2])
    if address then addresses[#addresses + 1] = address .. e.ref end
    remember(policy, e.user, row)
    if keep == 0 then
      redis.call('UNLINK', e.record)
    else
      redis.call('HSET', e.record, unpack(e.how))
      redis.call('EXPIRE', e.record, keep)
    end
  end
  change_facets(k.facets, sums)
  change_facets(k.recount, again)
  in_thousands(addresses, function(...) redis.pcall('ZREM', k.addresses, ...) end)
end

-- A user's devices are kept as long as the session that may live longest.
local function outlive(policy, devices, core)
  local _, _, absolute = struct.unpack('>I8I4I4', core)
  if policy.ttl then
    redis.call('EXPIRE', devices, absolute + 86400, 'NX')
    redis.call('EXPIRE', devices, absolute + 86400, 'GT')
  end
end

-- Past its deadline: ended in the very millisecond in which its time was over.
local function expiry(seen, core)
  local login, idle, absolute = struct.unpack('>I8I4I4', core)
  local by_idle, by_absolute = seen + idle * 1000, login + absolute * 1000
  if by_absolute <= by_idle then return {'e', 'expired', 'ea', ms(by_absolute), 'ec', 'absolute'} end
  return {'e', 'expired', 'ea', ms(by_idle), 'ec', 'idle'}
end
