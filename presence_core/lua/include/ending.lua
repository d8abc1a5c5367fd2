-- How a session ends, in every script that ends one. Two halves:
--   drop   takes sessions out of the indexes and counts their ends: from here on they are dead to everyone;
--   bury   turns a record into a tombstone. A script that does not declare the record's key leaves a line in `closing`
--          instead, and tidy.lua buries later. Nothing between the two shows a dead session as live.
-- An end is {user, uid, sid, ref, how}: user the four keys of Shard.of_user; how a flat list of END_FIELDS and values,
-- {'e', reason, 'ea', at, 'ec', cause, …}.

-- Packed by Settings.policy.
local function read_policy(packed)
  local kicked, replaced, expired, logout, people, per_user, events, audit, ttl =
    struct.unpack('>I4I4I4I4I4I4I4I4I4', packed)
  return {keep = {kicked = kicked, replaced = replaced, expired = expired, logout = logout},
          longest = math.max(kicked, replaced, expired, logout),
          people = people, per_user = per_user, events = events, audit = audit, ttl = ttl == 1}
end

-- A script writes only once every key that it depends on has proved to be of its type: a Lua error rolls nothing back.
-- probes is {command, key, command, key, …}; answers an error to return, or nil.
local function first_bad(probes)
  for i = 1, #probes, 2 do
    local reply = redis.pcall(probes[i], probes[i + 1])
    if type(reply) == 'table' and reply.err then
      if string.find(reply.err, 'WRONGTYPE', 1, true) then
        return redis.error_reply('WRONGTYPE ' .. probes[i + 1] .. ' holds what presence_core never wrote')
      end
      return reply
    end
  end
end

local function shard_probes(k)
  return {'ZCARD', k.sessions, 'ZCARD', k.deadlines, 'ZCARD', k.users, 'ZCARD', k.people, 'HLEN', k.closing,
          'ZCARD', k.ended, 'XLEN', k.events, 'HLEN', k.totals}
end

local function announce(k, policy, kind, ref, at)
  redis.call('XADD', k.events, 'MAXLEN', '~', policy.events, '*', 'k', kind, 'r', ref, 'a', at)
end

local function each_thousand(items, act)
  for first = 1, #items, 1000 do act(unpack(items, first, math.min(first + 999, #items))) end
end

-- What only readers want (the user's own list of ends, the person, the devices) is written with pcall: a foreign type
-- under such a key must not keep a dead session alive.
local function drop(k, policy, ends)
  if #ends == 0 then return end
  local refs, counts, ended, offline, people = {}, {}, {}, {}, {}
  for i, e in ipairs(ends) do refs[i] = e.ref end
  each_thousand(refs, function(...)
    redis.call('ZREM', k.sessions, ...)
    redis.call('ZREM', k.deadlines, ...)
  end)
  for _, e in ipairs(ends) do
    local reason, at = e.how[2], e.how[4]
    redis.call('SREM', e.user.live, e.sid)
    redis.pcall('HDEL', e.user.devices, e.sid)
    if redis.call('EXISTS', e.user.live) == 0 then
      e.offline = true
      offline[#offline + 1] = e.uid
    end
    counts[reason] = (counts[reason] or 0) + 1
    if policy.keep[reason] > 0 then
      ended[#ended + 1] = at
      ended[#ended + 1] = e.ref
      if policy.per_user > 0 then
        redis.pcall('ZADD', e.user.ended, at, e.ref)
        redis.pcall('ZREMRANGEBYRANK', e.user.ended, 0, -policy.per_user - 1)
        redis.pcall('EXPIRE', e.user.ended, policy.longest)
      end
    end
    announce(k, policy, reason, e.ref, at)
  end
  each_thousand(ended, function(...) redis.call('ZADD', k.ended, ...) end)
  each_thousand(offline, function(...)
    local seen = redis.call('ZMSCORE', k.users, ...)
    for i, uid in ipairs({...}) do
      if seen[i] then
        people[#people + 1] = seen[i]
        people[#people + 1] = uid
      end
    end
    redis.call('ZREM', k.users, ...)
  end)
  each_thousand(people, function(...) redis.call('ZADD', k.people, ...) end)
  for reason, n in pairs(counts) do redis.call('HINCRBY', k.totals, reason, n) end
end

-- name and aliases are kept for "when was she here?" once the user has no live session left.
local function bury(policy, e, record, name, aliases)
  local keep = policy.keep[e.how[2]]
  if keep == 0 then
    redis.call('UNLINK', record)
  else
    redis.call('HSET', record, unpack(e.how))
    redis.call('EXPIRE', record, keep)
  end
  if (name or aliases) and policy.people > 0 and (e.offline or redis.call('EXISTS', e.user.live) == 0) then
    redis.pcall('HSET', e.user.person, 'n', name or '', 'a', aliases or '')
    redis.pcall('EXPIRE', e.user.person, policy.people)
  end
end

-- Past its deadline: ended in the very millisecond in which its time was over.
local function expiry(seen, core)
  local login, idle, absolute = struct.unpack('>I8I4I4', core)
  local by_idle, by_absolute = seen + idle * 1000, login + absolute * 1000
  if by_absolute <= by_idle then return {'e', 'expired', 'ea', ms(by_absolute), 'ec', 'absolute'} end
  return {'e', 'expired', 'ea', ms(by_idle), 'ec', 'idle'}
end
