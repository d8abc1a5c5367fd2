#!lua flags=allow-oom
-- Brings sessions into the state that they ought to be in: those past their deadline or without a record end as
-- expired, those in `closing` get their tombstone, stray entries go. The sweep, the healing of reads, the second half
-- of a kick and repair() are all this script. It re-checks everything, so it may be given anything, any number of times.
-- include: time
-- include: record
-- include: ending
-- KEYS: 1 sessions 2 deadlines 3 users 4 people 5 closing 6 ended 7 events 8 totals
--       then for each user: live ids, ended, person, devices; then a record for each ref
-- ARGV: 1 now|'' 2 policy 3 sweep|repair (repair makes lost lists again from what the other lists and records say)
--       4 number of users U, 5… their uids, then for each ref: its user's place (from 1), sid
-- returns: {expired, repaired}
local k = {sessions = KEYS[1], deadlines = KEYS[2], users = KEYS[3], people = KEYS[4], closing = KEYS[5],
           ended = KEYS[6], events = KEYS[7], totals = KEYS[8]}
local now, policy, mode, nusers = clock(ARGV[1]), read_policy(ARGV[2]), ARGV[3], tonumber(ARGV[4])
local bad = first_bad(shard_probes(k))
if bad then return bad end

local users = {}
for i = 1, nusers do
  local at = 5 + 4 * i
  users[i] = {uid = ARGV[4 + i], live = KEYS[at], ended = KEYS[at + 1], person = KEYS[at + 2], devices = KEYS[at + 3]}
end
local first, base = 8 + 4 * nusers, 3 + nusers
local items, refs = {}, {}
for i = 1, #KEYS - first do
  local user, sid = users[tonumber(ARGV[base + 2 * i])], ARGV[base + 2 * i + 1]
  items[i] = {user = user, uid = user.uid, sid = sid, ref = user.uid .. ':' .. sid, record = KEYS[first + i]}
  refs[i] = items[i].ref
end
local listed, due, closing = {}, {}, {}
if #refs > 0 then
  listed = redis.call('ZMSCORE', k.sessions, unpack(refs))
  due = redis.call('ZMSCORE', k.deadlines, unpack(refs))
  closing = redis.call('HMGET', k.closing, unpack(refs))
end
for _, user in ipairs(users) do
  bad = first_bad({'SCARD', user.live})
  if bad then return bad end
end
for i, e in ipairs(items) do
  local row = redis.pcall('HMGET', e.record, 's', 'c', 'n', 'a', 'e')
  if row.err then -- a foreign type where the record was: as good as gone
    row = {}
    e.foreign = true
  end
  e.row = row
end

local expired, repaired, ends, buried, closed = 0, 0, {}, {}, {}
for i, e in ipairs(items) do
  local seen, core, over = tonumber(e.row[1] or 0), e.row[2], e.row[5]
  if closing[i] then
    e.how = cmsgpack.unpack(closing[i])
    if e.how[2] == 'expired' and core then e.how = expiry(seen, core) end
    buried[#buried + 1] = e
    closed[#closed + 1] = e.ref
    repaired = repaired + 1
  elseif not listed[i] and not due[i] then
    repaired = repaired + redis.call('SREM', e.user.live, e.sid)
  elseif over then -- ended and counted already: only the lists had not heard
    redis.call('ZREM', k.sessions, e.ref)
    redis.call('ZREM', k.deadlines, e.ref)
    redis.call('SREM', e.user.live, e.sid)
    repaired = repaired + 1
  elseif not core or now >= deadline_of(seen, core) then
    local lost = {'e', 'expired', 'ea', ms(math.min(now, tonumber(due[i] or now))), 'ec', 'lost'}
    e.how = core and expiry(seen, core) or lost
    ends[#ends + 1] = e
    buried[#buried + 1] = e
    expired = expired + 1
  else -- it lives: let every list say so
    local deadline = deadline_of(seen, core)
    local mended = 0
    if tonumber(due[i] or 0) ~= deadline then
      redis.call('ZADD', k.deadlines, deadline, e.ref)
      mended = 1
    end
    if mode == 'repair' then
      if not listed[i] or tonumber(listed[i]) ~= login_of(core) then
        redis.call('ZADD', k.sessions, login_of(core), e.ref)
        mended = 1
      end
      mended = math.max(mended, redis.call('SADD', e.user.live, e.sid))
      mended = math.max(mended, redis.call('ZADD', k.users, 'GT', 'CH', seen, e.uid))
    end
    repaired = repaired + mended
  end
end

drop(k, policy, ends)
for _, e in ipairs(buried) do
  if e.row[2] then bury(policy, e, e.record, e.row[3], e.row[4]) end
end
each_thousand(closed, function(...) redis.call('HDEL', k.closing, ...) end)


if mode == 'repair' then -- a user whose last session went without a word
  for _, user in ipairs(users) do
    local seen = redis.call('EXISTS', user.live) == 0 and redis.call('ZSCORE', k.users, user.uid)
    if seen then
      redis.call('ZREM', k.users, user.uid)
      redis.call('ZADD', k.people, seen, user.uid)
      repaired = repaired + 1
    end
  end
end
return {expired, repaired}
