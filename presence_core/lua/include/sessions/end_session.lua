-- How a session ends, in every script that ends one. Two steps:
--   remove_from_lists  takes sessions out of the lists and counts their ends: from here on no reader finds them live.
--   write_tombstones   (tombstone.lua) turns records into tombstones. A script that does not declare the keys of the
--                      records notes the ends in `closing`; maintenance/settle_sessions.lua takes the second step.
-- An end is {user, sid, ref, how}: `user` as user_keys returns it, with `card`, how many sessions it has; `how` a flat
-- list of fields of an end and values, {'e', end_reason, 'ea', at, 'ec', cause, …}.
-- include: shard_keys
-- include: sessions/session_record
-- include: sessions/on_behalf

local LAST_UNLISTED = '-101' -- rank of an end that is not listed any more: 100 are, per user

-- Take a user's ended sessions, `sids`, out of the user's own keys; `scored`: {at, ref, …}, for the list of ends.
local function remove_from_user(policy, user, longest)
  user.card = user.card - count_or_zero(redis.pcall('SREM', user.live, unpack(user.sids)))
  if policy.devices then redis.pcall('HDEL', user.devices, unpack(user.sids)) end
  if #user.scored > 0 then -- only readers use the user's own list of ends, so a foreign type there stops no end
    redis.pcall('ZADD', user.ended, unpack(user.scored))
    redis.pcall('ZREMRANGEBYRANK', user.ended, '0', LAST_UNLISTED)
    redis.pcall('EXPIRE', user.ended, longest)
  end
end

-- Users without a live session move from `users` to `people`, with the time when they were last seen.
local function move_offline(k, uids)
  local people, seen = {}, redis.call('ZMSCORE', k.users, unpack(uids))
  for i, uid in ipairs(uids) do
    if seen[i] then people[#people + 1], people[#people + 2] = seen[i], uid end
  end
  redis.call('ZREM', k.users, unpack(uids))
  if #people > 0 then redis.call('ZADD', k.people, unpack(people)) end
end

local function remove_from_lists(k, policy, ends)
  if #ends == 0 then return end
  local refs, users, counts, ended, offline = {}, {}, {}, {}, {}
  local most_events, longest = tostring(policy.events), tostring(policy.longest) -- a number is converted at each call
  for i, e in ipairs(ends) do
    local user, end_reason, at = e.user, e.how[2], e.how[4]
    refs[i] = e.ref
    if not user.sids then
      users[#users + 1] = user
      user.sids, user.scored = {}, {}
    end
    local sids, scored = user.sids, user.scored
    sids[#sids + 1] = e.sid
    counts[end_reason] = (counts[end_reason] or 0) + 1
    if policy.keep[end_reason] > 0 then
      ended[#ended + 1], ended[#ended + 2] = at, e.ref
      scored[#scored + 1], scored[#scored + 2] = at, e.ref
    end
    if i == 1 then -- the cap is approximate: once for all is often enough
      redis.call('XADD', k.events, 'MAXLEN', '~', most_events, '*', 'k', end_reason, 'r', e.ref, 'a', at)
    else
      redis.call('XADD', k.events, '*', 'k', end_reason, 'r', e.ref, 'a', at)
    end
  end
  in_thousands(refs, function(...)
    redis.call('ZREM', k.sessions, ...)
    redis.call('ZREM', k.deadlines, ...)
  end)
  for _, user in ipairs(users) do
    remove_from_user(policy, user, longest)
    if not has_own_session(user) then offline[#offline + 1] = user.uid end
  end
  in_thousands(ended, function(...) redis.call('ZADD', k.ended, ...) end)
  in_thousands(offline, function(...) move_offline(k, {...}) end)
  for end_reason, n in pairs(counts) do redis.call('HINCRBY', k.totals, end_reason, n) end
end

-- Note how sessions ended whose tombstones another script is to write.
local function note_in_closing(k, ends)
  for _, e in ipairs(ends) do redis.call('HSET', k.closing, e.ref, cmsgpack.pack(e.how)) end
end

-- Keep the user's hash of devices as long as the session that may live longest.
local function extend_devices(policy, devices, core)
  local _, _, absolute = struct.unpack('>I8I4I4', core)
  if policy.ttl then
    redis.call('EXPIRE', devices, absolute + 86400, 'NX')
    redis.call('EXPIRE', devices, absolute + 86400, 'GT')
  end
end

-- How a session past its deadline ended: in the millisecond of its deadline, whenever that is found. `deadline`,
-- `is_absolute`: as deadline_of returns them. `idp_end`: the field of the record.
local function expired_end(deadline, is_absolute, idp_end)
  local cause = not is_absolute and 'idle' or ends_by_idp(deadline, idp_end) and 'idp' or 'absolute'
  return {'e', 'expired', 'ea', ms(deadline), 'ec', cause}
end
