-- Put a session into every list and index, in writes that can be undone.
-- include: sessions/end_session
-- include: facets
-- include: sessions/addresses
-- include: login/undo

local function write_event(k, policy, kind, ref, at)
  write({'HINCRBY', k.totals, kind, -1}, 'HINCRBY', k.totals, kind, 1)
  local id = write(nil, 'XADD', k.events, 'MAXLEN', '~', policy.events, '*', 'k', kind, 'r', ref, 'a', ms(at))
  undo_commands[#undo_commands + 1] = {'XDEL', k.events, id}
end

-- `new`: {sid, ref, login, seen, idle, absolute, is_repeat, core; device, '' where no limit per device applies; words,
-- the entries of the index of words as ZADD takes them; address, the entry of the index of addresses, or nil}.
local function add_to_lists(k, policy, now, user, words, new)
  local is_listed = new.is_repeat
  if not is_listed then
    is_listed = write({'ZREM', k.sessions, new.ref}, 'ZADD', k.sessions, new.login, new.ref) == 0
    if is_listed then write_event(k, policy, 'expired', new.ref, now) end -- a session whose record was lost had this id
    write_event(k, policy, 'login', new.ref, new.login)
  end
  write(not new.is_repeat and {'ZREM', k.deadlines, new.ref} or nil, 'ZADD', k.deadlines,
        math.min(new.seen + new.idle * 1000, new.login + new.absolute * 1000), new.ref)
  if not is_on_behalf(new.sid) then
    write(user.card == 0 and {'ZREM', k.users, user.uid} or nil, 'ZADD', k.users, 'GT', new.seen, user.uid)
  end
  if new.device ~= '' then
    write({'HDEL', user.devices, new.sid}, 'HSET', user.devices, new.sid, new.device)
    extend_devices(policy, user.devices, new.core)
  elseif is_listed and policy.devices then
    redis.pcall('HDEL', user.devices, new.sid)
  end
  if #new.words > 0 then
    write(nil, 'ZADD', words, unpack(new.words)) -- not undone: the user may have had them before
  end
  if new.address then
    write({'ZREM', k.addresses, new.address}, 'ZADD', k.addresses, 0, new.address)
  end
end

-- Count the session's facets. `row`, and `old` of the same login before: the values of its fields. Nothing here fails.
local function count_login(k, new, row, old, recount)
  local sums = {}
  add_facets(sums, row, 1)
  if new.is_repeat then
    add_facets(sums, old, -1)
    local now_at = address_entries(new.core, nil, new.ref)[1]
    for _, entry in ipairs(address_entries(old[R.core], old[R.last_ip], new.ref)) do
      if entry ~= now_at then redis.pcall('ZREM', k.addresses, entry) end
    end
  end
  change_facets(k.facets, sums)
  if recount and (not new.is_repeat or redis.pcall('SISMEMBER', k.counted, new.ref) == 1) then
    redis.pcall('SADD', k.counted, new.ref)
    change_facets(k.recount, sums)
  end
end
