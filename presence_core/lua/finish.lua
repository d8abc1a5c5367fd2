#!lua flags=allow-oom
-- One user's sessions end, by logout or kick. One of them: with its tombstone, in this one step. All but those to keep:
-- dead at once; the follow-up tidy.lua writes their tombstones.
-- include: time
-- include: record
-- include: ending
-- KEYS: 1 sessions 2 deadlines 3 users 4 people 5 closing 6 ended 7 events 8 totals
--       9 user's live ids 10 devices 11 audit 12 note 13 message 14 record (of the one)
-- ARGV: 1 now|'' 2 policy 3 uid 4 reason 5 cause 6 by 7 note id|'' 8 note 9 message id|'' 10 message 11 ticket|''
--       12 one|all 13… the session id; or those to keep
-- returns: {{sids that this call ended}, {sids found past their deadline, ended as expired}, row (of the one)}
local k = {sessions = KEYS[1], deadlines = KEYS[2], users = KEYS[3], people = KEYS[4], closing = KEYS[5],
           ended = KEYS[6], events = KEYS[7], totals = KEYS[8]}
local now, policy, uid, reason = clock(ARGV[1]), read_policy(ARGV[2]), ARGV[3], ARGV[4]
local user = {uid = uid, live = KEYS[9], devices = KEYS[10]}
local audit = KEYS[11]
local bad = foreign_shard(k) or foreign('SCARD', user.live, 'XLEN', audit)
if bad then return bad end
user.card = redis.call('SCARD', user.live)

local ends, done, late, row = {}, {}, {}, {}
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
  ends[#ends + 1] = {user = user, sid = sid, ref = uid .. ':' .. sid, how = how}
end

if ARGV[12] == 'one' then -- either list will do: the other may have been lost. What is not whole is left to tidy.lua
  local sid = ARGV[13]
  row = redis.pcall('HMGET', KEYS[14], 's', 'c', 'n', 'a', 'i', 'x', 'C', 'A', 'e')
  local ref = uid .. ':' .. sid
  local listed = redis.call('ZSCORE', k.sessions, ref) or redis.call('ZSCORE', k.deadlines, ref)
  if row.err or row[9] or not sound(row[1], row[2]) or not listed then
    row = {}
  elseif now >= deadline_of(tonumber(row[1]), row[2]) then
    ending(sid, expiry(tonumber(row[1]), row[2]), late)
  else
    ending(sid, given_reason(), done)
  end
else
  if user.card == 0 and redis.call('ZSCORE', k.users, uid) then
    return redis.error_reply('WRONGTYPE ' .. user.live .. ' is lost although the user is online: run repair()')
  end
  local keep, sids, refs = {}, {}, {}
  for i = 13, #ARGV do keep[ARGV[i]] = true end
  for _, sid in ipairs(redis.call('SMEMBERS', user.live)) do
    if not keep[sid] then
      sids[#sids + 1] = sid
      refs[#refs + 1] = uid .. ':' .. sid
    end
  end
  local listed = #refs > 0 and redis.call('ZMSCORE', k.sessions, unpack(refs)) or {}
  local due = #refs > 0 and redis.call('ZMSCORE', k.deadlines, unpack(refs)) or {}
  for i, sid in ipairs(sids) do
    if listed[i] and due[i] and tonumber(due[i]) <= now then
      ending(sid, {'e', 'expired', 'ea', due[i]}, late)
    elseif listed[i] then
      ending(sid, given_reason(), done)
    end
  end
end

-- Nothing below can fail.
drop(k, policy, ends)
for _, e in ipairs(ends) do
  if KEYS[14] then
    bury(policy, KEYS[14], e.how)
  else
    redis.call('HSET', k.closing, e.ref, cmsgpack.pack(e.how))
  end
end
local function keep_text(key, id, text)
  local keep = policy.keep[reason]
  if id ~= '' and #done > 0 and keep > 0 then
    redis.call('SET', key, text, 'EX', math.max(keep + 86400, redis.call('TTL', key)))
  end
end
keep_text(KEYS[12], ARGV[7], ARGV[8])
keep_text(KEYS[13], ARGV[9], ARGV[10])
if reason == 'kicked' then
  redis.call('XADD', audit, 'MAXLEN', '~', policy.audit, '*', 'at', ms(now), 'by', ARGV[6], 'what', 'kick', 'uid', uid,
             'session', ARGV[12] == 'one' and ARGV[13] or '', 'reason', ARGV[8], 'message', ARGV[10],
             'ticket', ARGV[11], 'ended', #done)
end
return {done, late, row}
