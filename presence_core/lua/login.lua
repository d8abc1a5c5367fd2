#!lua
-- A session begins: all of its places at once, or none. A limit ends the oldest in the same step (dead at once; their
-- tombstones follow by tidy.lua), so that no race can ever show one session too many.
-- include: time
-- include: record
-- include: facets
-- include: ending
-- include: hold
-- include: vouched
-- KEYS: 1-13 Shard.lists 14 labels 15 words 16 block 17-20 Shard.of_user 21 record
-- ARGV: 1 now|'' 2 policy 3 uid 4 sid 5 digest of the secret 6 idle s 7 absolute s 8 name 9 aliases 10 packed address
--       11 attributes 12 client label 13 client text 14 agent label 15 agent text 16 label limit 17 device
--       18 max sessions 19 max per device|0 20 replace|reject 21 login at|'' 22 last seen|'' (imported)
--       23 declared attributes (facets.lua) 24 index the address 0|1 25… what the index of words has of this user
-- returns: {'ok', row, {sids that a limit ended}, {sids found past their deadline, ended as expired}} or
--          {'limit'|'device_limit'|'ended'|'expired'} (with 1 behind 'ended': see validate.lua) or
--          {'blocked', message, until ms|''}
local k, keys = shard_keys()
local labels, words, block, record = KEYS[keys + 1], KEYS[keys + 2], KEYS[keys + 3], KEYS[keys + 8]
local now, policy, uid, sid = clock(ARGV[1]), read_policy(ARGV[2]), ARGV[3], ARGV[4]
local user = user_keys(uid, keys + 4)
local ref = uid .. ':' .. sid

local old = redis.call('HMGET', record, unpack(BURIED))
local spoiled = old[2] and not old[3] and not sound(old[1], old[2])
if spoiled then old = {} end
local held = redis.pcall('HMGET', block, 'until', 'message')
if held.err then return foreign('HLEN', block) end
if is_held(now, held[1]) then return {'blocked', held[2] or '', held[1]} end
local about = redis.call('HMGET', k.meta, 'revoked', 'recount', 'revoked_at', 'floor')
local revoked = tonumber(about[1] or -1)
user.card = redis.call('SCARD', user.live)
local away = user.card == 0 and redis.call('ZSCORE', k.people, uid)
local past = ARGV[21] ~= ''
local login = past and math.min(now, tonumber(ARGV[21])) or now
-- In the very millisecond of a sign-everybody-out, or of a bulk kick's question: behind it.
if not past then login = math.max(login, revoked + 1, tonumber(about[4] or 0)) end
local seen = past and math.max(login, math.min(now, tonumber(ARGV[22]))) or now
local idle, absolute = tonumber(ARGV[6]), tonumber(ARGV[7])
local again = false
if old[2] then
  if old[3] or not redis.call('ZSCORE', k.sessions, ref) then return {'ended'} end
  if login_of(old[2]) <= revoked then return {'ended'} end
  if now >= deadline_of(tonumber(old[1]), old[2]) then return vouched(now, k.meta) and {'ended', 1} or {'ended'} end
  again = true -- the same login, told again: it keeps its time and timeouts, and skips the limits
  login, idle, absolute = struct.unpack('>I8I4I4', old[2])
  seen = math.max(seen, tonumber(old[1]))
elseif math.min(seen + idle * 1000, login + absolute * 1000) <= now or login <= revoked then
  return {'expired'}
end

-- Whom the limits end. Those past their deadline count for no limit.
local max, per_device, device = tonumber(ARGV[18]), tonumber(ARGV[19]), ARGV[17]
if device == '' then per_device = 0 end
local ends, replaced, late = {}, {}, {}
local function ending(id, ...) ends[#ends + 1] = {user = user, sid = id, ref = uid .. ':' .. id, how = {...}} end
if not again and (user.card >= max or (per_device > 0 and user.card >= per_device)) then
  local sids, refs = redis.call('SMEMBERS', user.live), {}
  for i, id in ipairs(sids) do refs[i] = uid .. ':' .. id end
  local begun = redis.call('ZMSCORE', k.sessions, unpack(refs))
  local due = redis.call('ZMSCORE', k.deadlines, unpack(refs))
  local devices = per_device > 0 and redis.call('HMGET', user.devices, unpack(sids)) or {}
  local alive, on_device = {}, {}
  for i, id in ipairs(sids) do
    if id == sid or not begun[i] then -- dirt: not this login's to judge
    elseif signed_out(now, tonumber(begun[i]), tonumber(due[i] or math.huge), revoked, tonumber(about[3] or 0)) then
      late[#late + 1] = id
      ending(id, unpack(revocation(k.meta)))
    elseif due[i] and tonumber(due[i]) <= now then
      late[#late + 1] = id
      ending(id, 'e', 'expired', 'ea', due[i])
    else
      local one = {sid = id, begun = tonumber(begun[i])}
      alive[#alive + 1] = one
      if per_device > 0 and devices[i] == device then on_device[#on_device + 1] = one end
    end
  end
  if ARGV[20] == 'reject' then
    if #alive >= max then return {'limit'} end
    if per_device > 0 and #on_device >= per_device then return {'device_limit'} end
  end
  local function oldest_first(a, b) return a.begun < b.begun or (a.begun == b.begun and a.sid < b.sid) end
  table.sort(alive, oldest_first)
  table.sort(on_device, oldest_first)
  local function replace(one, cause)
    if one.gone then return end
    one.gone = true
    replaced[#replaced + 1] = one.sid
    ending(one.sid, 'e', 'replaced', 'ea', ms(now), 'ec', cause, 'eb', uid, 'er', sid)
  end
  if per_device > 0 then
    for i = 1, #on_device - per_device + 1 do replace(on_device[i], 'device_limit') end
  end
  for _, one in ipairs(alive) do
    if #alive - #replaced < max then break end
    replace(one, 'limit')
  end
end

-- A text that many sessions share is kept once, in a table that hostile variety cannot grow: past its limit, or when
-- two texts share an id, the record carries its own.
local ids, texts, fresh = {ARGV[12], ARGV[14]}, {ARGV[13], ARGV[15]}, {}
local known = redis.call('HMGET', labels, ids[1], ids[2])
for i = 1, 2 do
  if ids[i] == NO_LABEL or known[i] == texts[i] then
    texts[i] = ''
  elseif known[i] or fresh[1] == ids[i] or redis.call('HLEN', labels) >= tonumber(ARGV[16]) then
    ids[i] = INLINE
  else
    fresh[#fresh + 1] = ids[i]
    fresh[#fresh + 1] = texts[i]
    texts[i] = ''
  end
end
local core = struct.pack(CORE, login, idle, absolute, ARGV[5], ids[1], ids[2]) .. ARGV[10]
local fields = {'s', ms(seen), 'c', core}
local function put(name, value)
  if value ~= '' then
    fields[#fields + 1] = name
    fields[#fields + 1] = value
  end
end
put('n', ARGV[8])
put('a', ARGV[9])
put('x', ARGV[11])
put('C', texts[1])
put('A', texts[2])
local counted_as = declared(k.facets, ARGV[23])
put('f', counted_as)

-- All or nothing: a Lua error rolls nothing back, so each write says how it is undone, in case that a later one meets
-- what another program left under its key.
local undo = {}
local function write(back, ...)
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err then
    for i = #undo, 1, -1 do redis.pcall(unpack(undo[i])) end
    local name, key = ...
    if refused(reply.err) then return nil, redis.error_reply('NOPERM ACL failure in script: ' .. name .. ' on ' .. key) end
    return nil, redis.error_reply('WRONGTYPE ' .. key .. ' holds what presence_core never wrote')
  end
  if back then undo[#undo + 1] = back end
  return reply
end
local function tell(kind, at)
  local id, bad = write({'HINCRBY', k.totals, kind, -1}, 'HINCRBY', k.totals, kind, 1)
  if bad then return bad end
  id, bad = write(nil, 'XADD', k.events, 'MAXLEN', '~', policy.events, '*', 'k', kind, 'r', ref, 'a', ms(at))
  if bad then return bad end
  undo[#undo + 1] = {'XDEL', k.events, id}
end
local bad, added, _
if #ends > 0 or again then
  bad = foreign_shard(k)
  if not bad and per_device > 0 then bad = foreign('HLEN', user.devices) end
  if bad then return bad end
end
if not again then
  added, bad = write({'ZREM', k.sessions, ref}, 'ZADD', k.sessions, login, ref)
  if bad then return bad end
  if added == 0 then bad = tell('expired', now) end -- listed without a record: what had this id before was lost
  bad = bad or tell('login', login)
  if bad then return bad end
end
_, bad = write(not again and {'ZREM', k.deadlines, ref} or nil, 'ZADD', k.deadlines,
               math.min(seen + idle * 1000, login + absolute * 1000), ref)
if bad then return bad end
_, bad = write(user.card == 0 and {'ZREM', k.users, uid} or nil, 'ZADD', k.users, 'GT', seen, uid)
if bad then return bad end
if per_device > 0 then
  _, bad = write({'HDEL', user.devices, sid}, 'HSET', user.devices, sid, device)
  if bad then return bad end
  outlive(policy, user.devices, core)
elseif (again or added == 0) and policy.devices then -- told again without its device
  redis.pcall('HDEL', user.devices, sid)
end

local entries = {}
for i = 25, #ARGV do
  entries[#entries + 1] = 0
  entries[#entries + 1] = ARGV[i]
end
if #entries > 0 then -- its own entries may be stale, so none is taken back
  _, bad = write(nil, 'ZADD', words, unpack(entries))
  if bad then return bad end
end
local address = ARGV[24] == '1' and indexed_address(core)
if address then
  _, bad = write({'ZREM', k.addresses, address .. ref}, 'ZADD', k.addresses, 0, address .. ref)
  if bad then return bad end
end

-- Nothing below can fail.
local row = {ms(seen), core, false, ARGV[8], ARGV[9], texts[1], texts[2], counted_as}
local sums = {}
add_facets(sums, row, 1)
if again then
  add_facets(sums, old, -1)
  local before = indexed_address(old[2])
  if before and before ~= indexed_address(core) then redis.pcall('ZREM', k.addresses, before .. ref) end
end
change_facets(k.facets, sums)
if about[2] and (not again or redis.pcall('SISMEMBER', k.counted, ref) == 1) then
  redis.pcall('SADD', k.counted, ref)
  change_facets(k.recount, sums)
end
if away then redis.call('ZREM', k.people, uid) end
if #fresh > 0 then
  redis.call('HSET', labels, unpack(fresh))
  redis.pcall('HSETNX', k.facets, '-', PAD)
end
if spoiled then redis.call('UNLINK', record) end
if again then redis.call('HDEL', record, 'n', 'a', 'i', 'x', 'C', 'A', 'f') end
redis.call('HSET', record, unpack(fields))
if policy.ttl and not again then redis.call('PEXPIREAT', record, ms(login + (absolute + 86400) * 1000)) end
user.card = user.card + redis.call('SADD', user.live, sid)
drop(k, policy, ends)
for _, e in ipairs(ends) do redis.call('HSET', k.closing, e.ref, cmsgpack.pack(e.how)) end
return {'ok', ms(seen), core, replaced, late}
