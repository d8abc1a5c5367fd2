#!lua flags=allow-oom
-- One user's sessions end, by logout or kick. One of them: with its tombstone, in this one step. All but those to keep:
-- dead at once; the follow-up tidy.lua writes their tombstones.
-- include: time
-- include: record
-- include: facets
-- include: ending
-- include: hold
-- KEYS: 1-13 Shard.lists 14-17 Shard.of_user 18 audit 19 note 20 message 21 block 22 blocks 23 job 24 record (of the one)
-- ARGV: 1 now|'' 2 policy 3 uid 4 reason 5 cause 6 by 7 note id|'' 8 note 9 message id|'' 10 message 11 ticket|''
--       12 block for seconds|'' (none) 13 'audit', which is told of it; 'silent': nobody is; or the epoch of the bulk kick
--          that counts it
--       14 login ms at which it began|'' 15 one|all 16… the session id; or those to keep
-- returns: {{sids that this call ended}, {sids found past their deadline, ended as expired}, row (of the one),
--          the hold as it is now, or {}, now}; or 0, and nothing is done: that epoch of the bulk kick is over
local k, keys = shard_keys()
local now, policy, uid, reason = clock(ARGV[1]), read_policy(ARGV[2]), ARGV[3], ARGV[4]
local user = user_keys(uid, keys + 1)
local audit, note, message, block, blocks, job, record = unpack(KEYS, keys + 5)
local revoked, revoked_at = watermark(k.meta)
local bad = foreign_shard(k) or foreign('SCARD', user.live, 'XLEN', audit, 'HLEN', block, 'ZCARD', blocks, 'HLEN', job)
if bad then return bad end
local told = ARGV[13] == 'audit'
local is_job = not told and ARGV[13] ~= 'silent'
if is_job and redis.call('HGET', job, 'fence') ~= ARGV[13] then return 0 end -- include/epoch.lua says why
user.card = redis.call('SCARD', user.live)

local ends, done, late, row, full = {}, {}, {}, {}, nil
local function given_reason()
  local how = {'e', reason, 'ea', ms(now), 'ec', ARGV[5], 'eb', ARGV[6]}
  for field, value in pairs({en = ARGV[7], em = ARGV[9], et = ARGV[11]}) do
    if value ~= '' then
      how[#how + 1] = field
      how[#how + 1] = value
    end
  end
  return how
end
local function ending(sid, how, list)
  list[#list + 1] = sid
  ends[#ends + 1] = {user = user, sid = sid, ref = uid .. ':' .. sid, how = how, record = record, row = full}
end

if ARGV[15] == 'one' then -- either list will do: the other may have been lost. What is not whole is left to tidy.lua
  local sid = ARGV[16]
  row = redis.pcall('HMGET', record, 's', 'c', 'n', 'a', 'i', 'x', 'C', 'A', 'e', 'f')
  local ref = uid .. ':' .. sid
  local listed = redis.call('ZSCORE', k.sessions, ref) or redis.call('ZSCORE', k.deadlines, ref)
  if row.err or row[9] or not sound(row[1], row[2]) or not listed then
    row = {}
  else
    full = {row[1], row[2], row[9], row[3], row[4], row[7], row[8], row[10]}
    local dies, login = deadline_of(tonumber(row[1]), row[2])
    if signed_out(now, login, dies, revoked, revoked_at) then
      ending(sid, revocation(k.meta), late)
    elseif now >= dies then
      ending(sid, expiry(tonumber(row[1]), row[2]), late)
    elseif ARGV[14] == '' or login == tonumber(ARGV[14]) then -- else an id begun anew
      ending(sid, given_reason(), done)
    end
  end
else
  if user.card == 0 and redis.call('ZSCORE', k.users, uid) then
    return redis.error_reply('WRONGTYPE ' .. user.live .. ' is lost although the user is online: run repair()')
  end
  local keep, sids, refs = {}, {}, {}
  for i = 16, #ARGV do keep[ARGV[i]] = true end
  for _, sid in ipairs(redis.call('SMEMBERS', user.live)) do
    if not keep[sid] then
      sids[#sids + 1] = sid
      refs[#refs + 1] = uid .. ':' .. sid
    end
  end
  local listed = #refs > 0 and redis.call('ZMSCORE', k.sessions, unpack(refs)) or {}
  local due = #refs > 0 and redis.call('ZMSCORE', k.deadlines, unpack(refs)) or {}
  for i, sid in ipairs(sids) do
    local dies = tonumber(due[i] or math.huge)
    if listed[i] and signed_out(now, tonumber(listed[i]), dies, revoked, revoked_at) then
      ending(sid, revocation(k.meta), late)
    elseif listed[i] and dies <= now then
      ending(sid, {'e', 'expired', 'ea', due[i]}, late)
    elseif listed[i] then
      ending(sid, given_reason(), done)
    end
  end
end

-- Nothing below can fail.
drop(k, policy, ends)
if record then
  bury(k, policy, ends)
else
  for _, e in ipairs(ends) do redis.call('HSET', k.closing, e.ref, cmsgpack.pack(e.how)) end
end
local function keep_text(key, id, text)
  local keep = policy.keep[reason]
  if id ~= '' and #done > 0 and keep > 0 then
    redis.call('SET', key, text, 'EX', math.max(keep + 86400, redis.call('TTL', key)))
  end
end
keep_text(note, ARGV[7], ARGV[8])
keep_text(message, ARGV[9], ARGV[10])
local held, entry = {}, {}
if ARGV[12] ~= '' then
  held, entry = write_hold(policy, block, blocks, uid, now, {
    by = ARGV[6], reason = ARGV[8], message = ARGV[10], ticket = ARGV[11], at = ms(now), changed = ms(now),
    ['until'] = held_until(now, ARGV[12])})
end
if is_job then
  if #done > 0 then
    redis.pcall('HINCRBY', job, 'kicked', #done) -- what is no number there keeps nobody from being kicked
    redis.call('EXPIRE', job, 7776000, 'NX') -- 90 days: longer than any job that is at work
  end
elseif told and reason == 'kicked' then
  redis.call('XADD', audit, 'MAXLEN', '~', policy.audit, '*', 'at', ms(now), 'by', ARGV[6], 'what', 'kick', 'uid', uid,
             'session', ARGV[15] == 'one' and ARGV[16] or '', 'reason', ARGV[8], 'message', ARGV[10],
             'ticket', ARGV[11], 'ended', #done, unpack(entry))
end
return {done, late, row, held, now}
