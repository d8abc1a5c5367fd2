-- Which of these users stand in `users` only because no sweep has come by: all their sessions are past their deadline or
-- from before a sign-everybody-out. Answers {[uid] = true}. Looks at the fewer: what is due, or who is asked about; a
-- user's own SET names at most 1000 sessions. Exact but for records that Redis itself has dropped.
local function is_dead(now, sessions, deadlines, prefix, revoked, uid)
  local refs = redis.pcall('SMEMBERS', prefix .. uid)
  if refs.err or #refs == 0 then return true end
  for i, sid in ipairs(refs) do refs[i] = uid .. ':' .. sid end
  local dues = redis.call('ZMSCORE', deadlines, unpack(refs))
  local begun = revoked and redis.call('ZMSCORE', sessions, unpack(refs))
  for i, dies in ipairs(dues) do
    if dies and tonumber(dies) > now and (not begun or (begun[i] and tonumber(begun[i]) > revoked)) then return false end
  end
  return true
end

local function dead_among(now, sessions, deadlines, meta, prefix, uids)
  local dead, suspects, revoked = {}, uids, tonumber(redis.call('HGET', meta, 'revoked') or nil)
  local due = redis.call('ZCOUNT', deadlines, '-inf', ms(now))
  if revoked then
    local killed = redis.call('ZCOUNT', sessions, '-inf', ms(revoked))
    if killed == 0 then revoked = nil end
    due = due + killed
  end
  if due == 0 then return dead end
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
  for _, uid in ipairs(suspects) do
    if is_dead(now, sessions, deadlines, prefix, revoked, uid) then dead[uid] = true end
  end
  return dead
end
