-- How a session ends, in every script that ends one. Two halves:
--   drop   takes sessions out of the indexes and counts their ends: from here on they are dead to everyone;
--   bury   turns a record into a tombstone. A script that does not declare the record's key leaves a line in `closing`
--          instead, and tidy.lua buries later. Nothing between the two shows a dead session as live.
-- An end is {user, sid, ref, how}: user = {uid, live, devices (the keys of Shard.of_user), card}, how a flat
-- list of END_FIELDS and values, {'e', reason, 'ea', at, 'ec', cause, …}.

-- Packed by Settings.policy.
local function read_policy(packed)
  local kicked, replaced, expired, logout, events, audit, ttl, devices = struct.unpack('>I4I4I4I4I4I4I4I4', packed)
  return {keep = {kicked = kicked, replaced = replaced, expired = expired, logout = logout},
          events = events, audit = audit, ttl = ttl == 1, devices = devices == 1}
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
      user.gone = {}
      users[#users + 1] = user
    end
    user.gone[#user.gone + 1] = e.sid
    counts[reason] = (counts[reason] or 0) + 1
    if policy.keep[reason] > 0 then
      ended[#ended + 1] = at
      ended[#ended + 1] = e.ref
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

local function bury(policy, record, how)
  local keep = policy.keep[how[2]]
  if keep == 0 then
    redis.call('UNLINK', record)
  else
    redis.call('HSET', record, unpack(how))
    redis.call('EXPIRE', record, keep)
  end
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
