-- The sessions that a login ends, because the user would have more than the limits allow.
-- include: sessions/end_session
-- include: login/mirrored

-- Add an end to `ends`, and its session id to `sids`.
local function add_end(ends, sids, user, sid, how)
  sids[#sids + 1] = sid
  ends[#ends + 1] = {user = user, sid = sid, ref = user.uid .. ':' .. sid, how = how}
end

-- Read the user's other sessions. Returns the live ones, {sid, login, device}, oldest first. Those that are past their
-- deadline or revoked count for no limit: they are added to `ends` and `late`.
local function read_live(k, user, sid, now, revoked, revoked_at, with_devices, ends, late)
  local sids, refs, live = redis.call('SMEMBERS', user.live), {}, {}
  for i, other in ipairs(sids) do refs[i] = user.uid .. ':' .. other end
  local logins, due = redis.call('ZMSCORE', k.sessions, unpack(refs)), redis.call('ZMSCORE', k.deadlines, unpack(refs))
  local devices = with_devices and redis.call('HMGET', user.devices, unpack(sids)) or {}
  for i, other in ipairs(sids) do
    local login = logins[i] and tonumber(logins[i])
    if other == sid or not login or is_on_behalf(other) or is_mirrored(other) then
      -- Without a login time it is stale: left to repair.
    elseif is_revoked(now, login, tonumber(due[i] or math.huge), revoked, revoked_at) then
      add_end(ends, late, user, other, revoked_end(k.meta))
    elseif due[i] and tonumber(due[i]) <= now then
      add_end(ends, late, user, other, {'e', 'expired', 'ea', due[i]})
    else
      live[#live + 1] = {sid = other, login = login, device = devices[i]}
    end
  end
  table.sort(live, function(a, b) return a.login < b.login or (a.login == b.login and a.sid < b.sid) end)
  return live
end

-- `limits`: {user, devices, per_device, reject}; devices: how the hash of devices names the login's device, none where
-- no limit per device applies. Returns the ends; the session ids that were replaced, and those found past their
-- deadline; and the limit that refuses the login, if one does.
local function apply_limits(k, user, sid, now, revoked, revoked_at, limits)
  local ends, replaced, late, by_device = {}, {}, {}, #limits.devices > 0
  if user.card < limits.user and not (by_device and user.card >= limits.per_device) then return ends, replaced, late end
  local live, on_device, gone = read_live(k, user, sid, now, revoked, revoked_at, by_device, ends, late), {}, {}
  for _, session in ipairs(live) do
    for _, device in ipairs(limits.devices) do
      if session.device == device then on_device[#on_device + 1] = session end
    end
  end
  local too_many = #live - limits.user + 1
  local too_many_on_device = by_device and #on_device - limits.per_device + 1 or 0
  if limits.reject then
    return ends, replaced, late, too_many > 0 and 'limit' or too_many_on_device > 0 and 'device_limit' or nil
  end
  local function replace(session, cause)
    gone[session] = true
    add_end(ends, replaced, user, session.sid,
            {'e', 'replaced', 'ea', ms(now), 'ec', cause, 'eb', user.uid, 'er', sid})
  end
  for i = 1, too_many_on_device do replace(on_device[i], 'device_limit') end
  for _, session in ipairs(live) do
    if #replaced >= too_many then break end
    if not gone[session] then replace(session, 'limit') end
  end
  return ends, replaced, late
end
