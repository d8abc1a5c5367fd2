#!lua flags=allow-oom
-- Brings sessions into the state that they ought to be in: those past their deadline or without a record end as
-- expired, those in `closing` get their tombstone, stray entries go. The sweep, the healing of reads, the second half
-- of a kick and repair() are all this script. It re-checks everything, so it may be given anything, any number of times.
-- include: time
-- include: record
-- include: facets
-- include: ending
-- include: vouched
-- KEYS: 1-13 Shard.lists, then for each user Shard.of_user; then a record for each ref; for a repair, last, labels
-- ARGV: 1 now|'' 2 policy 3 sweep|heal (of what a read found: it ends nobody by a clock that no worker vouches for)|repair (makes
--       lost lists again from what the other lists and records say)
--       4 number of users U, 5… their uids, then for each ref: its user's place (from 1), sid
-- returns: {ended, repaired}
local k, keys = shard_keys()
local now, policy, repair, nusers = clock(ARGV[1]), read_policy(ARGV[2]), ARGV[3] == 'repair', tonumber(ARGV[4])
local by_clock = ARGV[3] ~= 'heal' or vouched(now, KEYS[9])
local bad = foreign_shard(k)
if bad then return bad end

local users = {}
for i = 1, nusers do
  local user = user_keys(ARGV[4 + i], keys + 4 * i - 3)
  user.card = redis.pcall('SCARD', user.live)
  if type(user.card) == 'table' then user.card = 0 end -- a foreign type: no reason to leave others' sessions undone
  users[i] = user
end
local first, base = keys + 4 * nusers, 3 + nusers
local items, refs = {}, {}
for i = 1, #KEYS - first - (repair and 1 or 0) do
  local user, sid = users[tonumber(ARGV[base + 2 * i])], ARGV[base + 2 * i + 1]
  local row = redis.pcall('HMGET', KEYS[first + i], unpack(BURIED))
  refs[i] = user.uid .. ':' .. sid
  items[i] = {user = user, sid = sid, ref = refs[i], record = KEYS[first + i], row = row, over = row[3]}
  if sound(row[1], row[2]) then
    items[i].core, items[i].seen = row[2], tonumber(row[1])
    items[i].deadline, items[i].login = deadline_of(items[i].seen, row[2])
  else -- a foreign type where the record was, too, is as good as gone; but not ours to remove
    items[i].spoiled = not row.err and not row[3] and (row[1] or row[2])
  end
end
local closing = redis.call('HLEN', k.closing) > 0 and #refs > 0 and redis.call('HMGET', k.closing, unpack(refs)) or {}

local dues = #refs > 0 and redis.call('ZMSCORE', k.deadlines, unpack(refs)) or {}

local revoked, revoked_at = watermark(k.meta)
local expired, repaired, ends, buried, closed, lost = 0, 0, {}, {}, {}, {}

local function unlist(e) -- ended and counted already, or never ours: only the lists had not heard
  lost[#lost + 1] = e.ref
  local gone = set_size(redis.pcall('SREM', e.user.live, e.sid))
  e.user.card = e.user.card - gone
  gone = gone + redis.call('ZREM', k.sessions, e.ref) + redis.call('ZREM', k.deadlines, e.ref)
  if gone > 0 then repaired = repaired + 1 end
end

local function redevice(e) -- the limit per device goes by these
  local text = policy.devices and (redis.call('HGET', e.record, 'C') or
                                   redis.call('HGET', KEYS[#KEYS], string.sub(e.core, 33, 36)))
  local device = text and string.match(text, '^[^\n]+')
  if not device or redis.pcall('HSETNX', e.user.devices, e.sid, device) ~= 1 then return 0 end
  outlive(policy, e.user.devices, e.core)
  return 1
end

local function enlist(e, due) -- it lives: let every list say so
  local mended = 0
  if due ~= e.deadline then mended = redis.call('ZADD', k.deadlines, 'CH', e.deadline, e.ref) end
  mended = math.max(mended, redis.call('ZADD', k.sessions, 'XX', 'CH', e.login, e.ref))
  if repair then
    local missed = set_size(redis.pcall('SADD', e.user.live, e.sid))
    e.user.card = e.user.card + missed
    mended = math.max(mended, missed, redis.call('ZADD', k.sessions, 'CH', e.login, e.ref),
                      redis.call('ZADD', k.users, 'GT', 'CH', e.seen, e.user.uid),
                      redis.call('ZREM', k.people, e.user.uid), redevice(e))
  end
  repaired = repaired + mended
end

for i, e in ipairs(items) do
  if closing[i] then
    local how = cmsgpack.unpack(closing[i])
    closed[#closed + 1] = e.ref
    if e.core and not e.over and not redis.call('ZSCORE', k.sessions, e.ref) then -- else an id begun anew since
      e.how = how[2] == 'expired' and expiry(e.seen, e.core) or how
      buried[#buried + 1] = e
      repaired = repaired + 1
    end
  elseif e.over then
    unlist(e)
  elseif not dues[i] and not redis.call('ZSCORE', k.sessions, e.ref) then -- nor does it end twice
    unlist(e)
  elseif e.core and now < e.deadline and e.login > revoked then
    enlist(e, tonumber(dues[i] or 0))
  elseif by_clock or not e.core or signed_out(now, e.login, e.deadline, revoked, revoked_at) then
    e.how = e.core and (signed_out(now, e.login, e.deadline, revoked, revoked_at) and revocation(k.meta)
                        or expiry(e.seen, e.core))
            or {'e', 'expired', 'ea', ms(math.min(now, tonumber(dues[i] or now))), 'ec', 'lost'}
    ends[#ends + 1] = e
    if e.core then buried[#buried + 1] = e else lost[#lost + 1] = e.ref end
    if e.spoiled then redis.call('UNLINK', e.record) end
    expired = expired + 1
  end
end

drop(k, policy, ends)
bury(k, policy, buried)
if #lost > 0 then redis.pcall('SREM', k.counted, unpack(lost)) end
in_thousands(closed, function(...) redis.call('HDEL', k.closing, ...) end)

if repair then -- a user whose last session went without a word
  for _, user in ipairs(users) do
    local seen = user.card == 0 and redis.call('ZSCORE', k.users, user.uid)
    if seen then
      redis.call('ZREM', k.users, user.uid)
      redis.call('ZADD', k.people, seen, user.uid)
      repaired = repaired + 1
    end
  end
end
return {expired, repaired}
