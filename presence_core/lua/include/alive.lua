-- Users stand in `users` until a sweep has come by, be all their sessions past their deadline or from before a
-- sign-everybody-out. Who of them is not online any more, as {[uid] = true}; exact but for records that Redis itself has
-- dropped. A user's own SET names at most 1000 sessions.
local function dead_of(now, sessions, deadlines, prefix, revoked, uids)
  local dead, refs, owners, n = {}, {}, {}, 0
  local function judge()
    local dues = redis.call('ZMSCORE', deadlines, unpack(refs, 1, n))
    local begun = revoked and redis.call('ZMSCORE', sessions, unpack(refs, 1, n))
    for i = 1, n do
      local dies, login = dues[i], begun and begun[i]
      if dies and tonumber(dies) > now and (not begun or (login and tonumber(login) > revoked)) then
        dead[owners[i]] = nil
      end
    end
    n = 0
  end
  for _, uid in ipairs(uids) do
    dead[uid] = true
    for _, sid in ipairs(redis.pcall('SMEMBERS', prefix .. uid)) do -- of a foreign type: none
      n = n + 1
      refs[n], owners[n] = uid .. ':' .. sid, uid
      if n == 1000 then judge() end
    end
  end
  if n > 0 then judge() end
  return dead
end

-- The same of users who stand in `users`. Looks at what waits for a sweep or at all of them, whichever is fewer.
local function dead_among(now, sessions, deadlines, meta, prefix, uids)
  local suspects, revoked = uids, tonumber(redis.call('HGET', meta, 'revoked') or nil)
  local due = redis.call('ZCOUNT', deadlines, '-inf', ms(now))
  if revoked then
    local killed = redis.call('ZCOUNT', sessions, '-inf', ms(revoked))
    if killed == 0 then revoked = nil end
    due = due + killed
  end
  if due == 0 then return {} end
  if due < #uids then
    local asked = {}
    for _, uid in ipairs(uids) do asked[uid] = true end
    suspects = {}
    local function suspect(refs)
      for _, ref in ipairs(refs) do
        local uid = string.match(ref, '^(.*):')
        if uid and asked[uid] then
          asked[uid] = nil
          suspects[#suspects + 1] = uid
        end
      end
    end
    suspect(redis.call('ZRANGE', deadlines, '-inf', ms(now), 'BYSCORE'))
    if revoked then suspect(redis.call('ZRANGE', sessions, '-inf', ms(revoked), 'BYSCORE')) end
  end
  return dead_of(now, sessions, deadlines, prefix, revoked, suspects)
end
