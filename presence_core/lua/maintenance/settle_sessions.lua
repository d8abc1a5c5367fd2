#!lua flags=allow-oom
-- Bring sessions into the state that they should be in: sessions past their deadline or without a record end as
-- expired, sessions in `closing` get their tombstone, stale entries are removed. The sweep, the repair of what a read
-- found, the second step of a kick and repair() all run this script. It checks everything again, so it may be given any
-- session, and any number of times.
-- include: sessions/end_session
-- include: sessions/tombstone
-- include: sessions/confirmed_clock
-- include: sessions/noted_end
-- KEYS: 1-13 Shard.lists, then for each user Shard.of_user; then a record for each ref; for a repair, last, labels
-- ARGV: 1 now|'' 2 policy 3 sweep|stale|repair 4 number of users U, 5… their uids, then for each ref: its user's place
--       (from 1), sid
--       sweep: sessions past their deadline, or in `closing`
--       stale: sessions that a read found; the clock ends them only where it is confirmed
--       repair: also puts back entries of lists, from the other lists and the records
-- returns: {ended, repaired}
local k, last_list_key = shard_keys()
local given_now, packed_policy, mode, users_given = unpack(ARGV, 1, ARGS)
local now, policy, number_of_users = clock(given_now), read_policy(packed_policy), tonumber(users_given)
local is_repair = mode == 'repair'
local labels = is_repair and KEYS[#KEYS]
local first_record = last_list_key + 4 * number_of_users + 1
local trusts_clock = mode ~= 'stale' or clock_is_confirmed(now, k.meta)
local bad = foreign_shard(k)
if bad then return bad end
local revoked, revoked_at = watermark(k.meta)

local function read_users()
  local users = {}
  for i = 1, number_of_users do
    local user = user_keys(ARGV[ARGS + i], last_list_key + 4 * i - 3)
    user.card = redis.pcall('SCARD', user.live)
    if type(user.card) == 'table' then user.card = 0 end -- a foreign type must not stop the sessions of other users
    users[i] = user
  end
  return users
end

local function read_items(users)
  local items, refs, at = {}, {}, ARGS + 1 + number_of_users
  for i = 1, #KEYS - first_record + (is_repair and 0 or 1) do
    local user, sid, record = users[tonumber(ARGV[at])], ARGV[at + 1], KEYS[first_record + i - 1]
    local row = redis.pcall('HMGET', record, COUNTED_FIELDS)
    local item = {user = user, sid = sid, ref = user.uid .. ':' .. sid, record = record, row = row,
                  has_ended = row[R.end_reason], how = false, core = false, seen = 0, deadline = 0, login = 0,
                  is_absolute = false, is_noted = false}
    if is_intact(row[R.seen], row[R.core]) then
      item.core, item.seen = row[R.core], tonumber(row[R.seen])
      item.deadline, item.login, item.is_absolute = deadline_of(item.seen, row[R.core])
    else -- a key of a foreign type counts as no record, but is not ours to remove
      item.is_spoiled = not row.err and not row[R.end_reason] and (row[R.seen] or row[R.core])
    end
    items[i], refs[i], at = item, item.ref, at + 2
  end
  return items, refs
end

local users = read_users()
local items, refs = read_items(users)
local closing = redis.call('HLEN', k.closing) > 0 and #refs > 0 and redis.call('HMGET', k.closing, unpack(refs)) or {}
local due = #refs > 0 and redis.call('ZMSCORE', k.deadlines, unpack(refs)) or {}
local expired, repaired, ends, with_record, closed, uncounted = 0, 0, {}, {}, {}, {}

local function is_listed(e) return redis.call('ZSCORE', k.sessions, e.ref) end

-- It has ended and is counted, or it was never a session: remove it from the lists.
local function remove_stale(e)
  uncounted[#uncounted + 1] = e.ref
  local removed = count_or_zero(redis.pcall('SREM', e.user.live, e.sid))
  e.user.card = e.user.card - removed
  removed = removed + redis.call('ZREM', k.sessions, e.ref) + redis.call('ZREM', k.deadlines, e.ref)
  if removed > 0 then repaired = repaired + 1 end
end

-- Put back its entry in the hash of devices, which the limit per device uses. Returns 1 where it was missing.
local function repair_device(e)
  local text = policy.devices and (redis.call('HGET', e.record, 'C') or
                                   redis.call('HGET', labels, string.sub(e.core, 33, 36)))
  local device = text and string.match(text, '^[^\n]+')
  if not device or redis.pcall('HSETNX', e.user.devices, e.sid, device) ~= 1 then return 0 end
  extend_devices(policy, e.user.devices, e.core)
  return 1
end

-- It is live: make every list say so.
local function repair_live(e, deadline)
  local changed = 0
  if deadline ~= e.deadline then changed = redis.call('ZADD', k.deadlines, 'CH', e.deadline, e.ref) end
  changed = math.max(changed, redis.call('ZADD', k.sessions, 'XX', 'CH', e.login, e.ref))
  if is_repair then
    local missing = count_or_zero(redis.pcall('SADD', e.user.live, e.sid))
    e.user.card = e.user.card + missing
    changed = math.max(changed, missing, redis.call('ZADD', k.sessions, 'CH', e.login, e.ref),
                       repair_device(e))
    if not is_on_behalf(e.sid) then
      changed = math.max(changed, redis.call('ZADD', k.users, 'GT', 'CH', e.seen, e.user.uid),
                         redis.call('ZREM', k.people, e.user.uid))
    end
  end
  repaired = repaired + changed
end

-- It ended before, and `closing` holds how: write its tombstone, unless a later session has its id.
local function finish_end(e, how)
  closed[#closed + 1] = e.ref
  if e.core and not e.has_ended and not is_listed(e) then
    e.how = how[2] == 'expired' and expired_end(e.deadline, e.is_absolute, e.row[R.idp_end]) or how
    e.is_noted = true
    with_record[#with_record + 1] = e
    repaired = repaired + 1
  end
end

local function end_now(e, deadline, by_watermark)
  if by_watermark then
    e.how = revoked_end(k.meta)
  elseif e.core then
    e.how = expired_end(e.deadline, e.is_absolute, e.row[R.idp_end])
  else
    e.how = {'e', 'expired', 'ea', ms(math.min(now, tonumber(deadline or now))), 'ec', 'lost'}
  end
  ends[#ends + 1] = e
  if e.core then with_record[#with_record + 1] = e else uncounted[#uncounted + 1] = e.ref end
  if e.is_spoiled then redis.call('UNLINK', e.record) end
  expired = expired + 1
end

for i, e in ipairs(items) do
  if closing[i] then
    finish_end(e, noted_end(closing[i], math.min(now, e.deadline)))
  elseif e.has_ended or (not due[i] and not is_listed(e)) then
    remove_stale(e)
  elseif e.core and now < e.deadline and e.login > revoked then
    repair_live(e, tonumber(due[i] or 0))
  else
    local by_watermark = e.core and is_revoked(now, e.login, e.deadline, revoked, revoked_at)
    if trusts_clock or not e.core or by_watermark then end_now(e, due[i], by_watermark) end
  end
end

remove_from_lists(k, policy, ends)
write_tombstones(k, policy, with_record)
if #uncounted > 0 then redis.pcall('SREM', k.counted, unpack(uncounted)) end
in_thousands(closed, function(...) redis.call('HDEL', k.closing, ...) end)

if is_repair then -- users who have no session of their own left although no end was noted
  for _, user in ipairs(users) do
    local seen = not has_own_session(user) and redis.call('ZSCORE', k.users, user.uid)
    if seen then
      redis.call('ZREM', k.users, user.uid)
      redis.call('ZADD', k.people, seen, user.uid)
      repaired = repaired + 1
    end
  end
end
return {expired, repaired}
