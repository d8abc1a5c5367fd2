#!lua flags=allow-oom
-- End sessions of one user, by logout or kick. 'one': with its tombstone, in this step. 'all' but those to keep: they
-- are no longer live, and maintenance/settle_sessions.lua writes their tombstones.
-- include: staff/block_record
-- include: sessions/end_session
-- include: sessions/tombstone
-- include: staff/audit_entry
-- include: staff/kept_text
-- KEYS: 1-13 Shard.lists 14-17 Shard.of_user 18 audit 19 note 20 message 21 block 22 blocks 23 job 24 record (of 'one')
-- ARGV: 1 now|'' 2 policy 3 uid 4 end_reason 5 cause 6 by 7 note id|'' 8 note 9 message id|'' 10 message 11 ticket|''
--       12 block for seconds|'' (no block)
--       13 what records it: 'audit', 'silent' (nothing), or the epoch of the bulk kick that counts it
--       14 login ms at which it began|'' 15 one|all 16… the session id; or those to keep
-- returns: {{sids that this call ended}, {sids found past their deadline, ended as expired}, row (of 'one'),
--          the block as it is now, or {}, now}
--          or 0: that epoch of the bulk kick has ended, and nothing is done
local k = shard_keys()
local audit, note_key, message_key, block, blocks, job, record = unpack(KEYS, 18)
local given_now, packed_policy, uid, end_reason, cause, by, note_id, note, message_id, message, ticket, block_for,
  recorded_by, began, mode = unpack(ARGV, 1, 15)
local now, policy, user = clock(given_now), read_policy(packed_policy), user_keys(uid, 14)
local revoked, revoked_at = watermark(k.meta)
local bad = foreign_shard(k) or foreign('SCARD', user.live, 'XLEN', audit, 'HLEN', block, 'ZCARD', blocks, 'HLEN', job)
if bad then return bad end
local is_job = recorded_by ~= 'audit' and recorded_by ~= 'silent'
if is_job and redis.call('HGET', job, 'fence') ~= recorded_by then return 0 end -- see fencing_epoch.lua
user.card = redis.call('SCARD', user.live)

local ends, done, late = {}, {}, {}
local function add_end(sids, sid, how, row)
  sids[#sids + 1] = sid
  ends[#ends + 1] = {user = user, sid = sid, ref = uid .. ':' .. sid, how = how, record = record, row = row}
end
local function given_how()
  return add_given({'e', end_reason, 'ea', ms(now), 'ec', cause, 'eb', by},
                   {en = note_id, em = message_id, et = ticket})
end

-- Either list is enough, because the other may be lost. An incomplete session is left to
-- maintenance/settle_sessions.lua.
local function end_one(sid)
  local ref = uid .. ':' .. sid
  local row = redis.pcall('HMGET', record, 's', 'c', 'n', 'a', 'i', 'x', 'C', 'A', 'h', 'q', 'e', 'f', 'o', 'g')
  local listed = redis.call('ZSCORE', k.sessions, ref) or redis.call('ZSCORE', k.deadlines, ref)
  if row.err or row[11] or not is_intact(row[1], row[2]) or not listed then return {} end
  -- RECORD_FIELDS
  local full = {row[1], row[2], row[11], row[3], row[4], row[7], row[8], row[12], row[5], row[13], row[14]}
  local deadline, login = deadline_of(tonumber(row[1]), row[2])
  if is_revoked(now, login, deadline, revoked, revoked_at) then
    add_end(late, sid, revoked_end(k.meta), full)
  elseif now >= deadline then
    add_end(late, sid, expired_end(tonumber(row[1]), row[2]), full)
  elseif began == '' or login == tonumber(began) then -- else a later session has this id
    add_end(done, sid, given_how(), full)
  end
  return row
end

local function end_all_but(keep)
  local sids, refs = {}, {}
  for _, sid in ipairs(redis.call('SMEMBERS', user.live)) do
    if not keep[sid] then
      sids[#sids + 1] = sid
      refs[#refs + 1] = uid .. ':' .. sid
    end
  end
  if #refs == 0 then return end
  local logins, due = redis.call('ZMSCORE', k.sessions, unpack(refs)), redis.call('ZMSCORE', k.deadlines, unpack(refs))
  for i, sid in ipairs(sids) do
    local deadline = tonumber(due[i] or math.huge)
    if logins[i] and is_revoked(now, tonumber(logins[i]), deadline, revoked, revoked_at) then
      add_end(late, sid, revoked_end(k.meta))
    elseif logins[i] and deadline <= now then
      add_end(late, sid, {'e', 'expired', 'ea', due[i]})
    elseif logins[i] then
      add_end(done, sid, given_how())
    end
  end
end

local row = {}
if mode == 'one' then
  row = end_one(ARGV[16])
elseif user.card == 0 and redis.call('ZSCORE', k.users, uid) then
  return redis.error_reply('WRONGTYPE ' .. user.live .. ' is lost although the user is online')
else
  local keep = {}
  for i = 16, #ARGV do keep[ARGV[i]] = true end
  end_all_but(keep)
end

-- Nothing below can fail.
remove_from_lists(k, policy, ends)
if record then write_tombstones(k, policy, ends) else note_in_closing(k, ends) end
if #done > 0 and policy.keep[end_reason] > 0 then
  keep_text(note_key, note_id, note, policy.keep[end_reason])
  keep_text(message_key, message_id, message, policy.keep[end_reason])
end
local block_row, block_fields = {}, {}
if block_for ~= '' then
  block_row, block_fields = write_block(policy, block, blocks, uid, now, {by = by, reason = note, message = message,
    ticket = ticket, at = ms(now), changed = ms(now), ['until'] = block_end(now, block_for)})
end
if is_job then
  if #done > 0 then
    redis.pcall('HINCRBY', job, 'kicked', #done) -- a value that is no number stops no kick
    redis.call('EXPIRE', job, 7776000, 'NX') -- 90 days: longer than any job runs
  end
elseif recorded_by == 'audit' and end_reason == 'kicked' then
  write_audit_entry(audit, policy.audit, ms(now), by, 'kick', {uid = uid, session = mode == 'one' and ARGV[16],
    reason = note, message = message, ticket = ticket}, 'ended', #done, unpack(block_fields))
end
return {done, late, row, block_row, now}
