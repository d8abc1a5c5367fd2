-- `users` keeps a user until a sweep, even if all of their sessions are past their deadline or before the watermark of
-- a revoke_before. These functions find such users: {[uid] = true}, exact but for records that Redis itself has
-- removed.
-- include: clock
-- include: sessions/on_behalf
-- include: read_derived

-- Those of `uids` without a live session. `prefix`: of the users' keys, whose SETs name at most 1000 sessions each.
local function without_live_session(now, sessions, deadlines, prefix, revoked, uids)
  local offline, refs, owners, n = {}, {}, {}, 0
  local function check_refs()
    local due = redis.call('ZMSCORE', deadlines, unpack(refs, 1, n))
    local begun = revoked and redis.call('ZMSCORE', sessions, unpack(refs, 1, n))
    for i = 1, n do
      local deadline, login = due[i], begun and begun[i]
      if deadline and tonumber(deadline) > now and (not begun or (login and tonumber(login) > revoked)) then
        offline[owners[i]] = nil
      end
    end
    n = 0
  end
  for _, uid in ipairs(uids) do
    offline[uid] = true
    for _, sid in ipairs(read_derived('SMEMBERS', prefix .. uid)) do -- of a foreign type: none
      if not is_on_behalf(sid) then
        n = n + 1
        refs[n], owners[n] = uid .. ':' .. sid, uid
        if n == 1000 then check_refs() end
      end
    end
  end
  if n > 0 then check_refs() end
  return offline
end

-- The users to whom sessions belong, each once: of all refs in these lists, those that `wanted` (all, where nil) has.
local function owners_of(wanted, ...)
  local owners, known = {}, {}
  for _, refs in ipairs({...}) do
    for _, ref in ipairs(refs) do
      local uid = string.match(ref, '^(.*):')
      if uid and not known[uid] and (not wanted or wanted[uid]) then
        known[uid] = true
        owners[#owners + 1] = uid
      end
    end
  end
  return owners
end

-- Those of `uids`, all of them in `users`, who are offline. Checks the users with a session that waits for a sweep, or
-- all of `uids`, whichever is fewer.
local function offline_among(now, sessions, deadlines, meta, prefix, uids)
  local revoked = tonumber(redis.call('HGET', meta, 'revoked') or nil)
  local due = redis.call('ZCOUNT', deadlines, '-inf', ms(now))
  if revoked then
    local killed = redis.call('ZCOUNT', sessions, '-inf', ms(revoked))
    if killed == 0 then revoked = nil end
    due = due + killed
  end
  if due == 0 then return {} end
  if due < #uids then
    local wanted = {}
    for _, uid in ipairs(uids) do wanted[uid] = true end
    uids = owners_of(wanted, redis.call('ZRANGE', deadlines, '-inf', ms(now), 'BYSCORE'),
                     revoked and redis.call('ZRANGE', sessions, '-inf', ms(revoked), 'BYSCORE') or {})
  end
  return without_live_session(now, sessions, deadlines, prefix, revoked, uids)
end
