#!lua flags=allow-oom
-- End sessions that a bulk kick or kick_refs chose, with their tombstones. They may belong to many users: checks,
-- lists and counters are dealt with once for all of them.
-- include: sessions/end_session
-- include: sessions/tombstone
-- include: staff/audit_entry
-- include: staff/kept_text
-- KEYS: 1-13 Shard.lists 14 job, or audit 15 note 16 message, then for each user Shard.of_user; then a record for each
--       ref
-- ARGV: 1 now|'' 2 policy 3 epoch of the runner|'' (ends that a failover has lost; no job)
--       4 job (it counts the ends)|audit (an entry for each end) 5 by 6 note id 7 note 8 message id|'' 9 message
--       10 ticket|'' 11 number of users U, 12… their uids, then for each ref: its user's place (from 1), sid, login ms
--       at which it began
-- returns: {for each ref 1: kicked by this call; 0: not, because it has ended, expires now, or began again; -1: cannot
--          be ended, because another program's value is in the place of the user's sessions}
--          or 0: that epoch of the bulk kick has ended, and nothing is done
local k = shard_keys()
local recorder, note_key, message_key = unpack(KEYS, 14, 16)
local given_now, packed_policy, epoch, recorded_by, by, note_id, note, message_id, message, ticket, users_given =
  unpack(ARGV, 1, ARGS)
local now, policy, number_of_users = clock(given_now), read_policy(packed_policy), tonumber(users_given)
if epoch ~= '' and redis.call('HGET', recorder, 'fence') ~= epoch then return 0 end -- see fencing_epoch.lua
local bad = foreign('ZCARD', k.users, 'ZCARD', k.people, 'ZCARD', k.ended, 'XLEN', k.events, 'HLEN', k.totals)
  or recorded_by == 'audit' and foreign('XLEN', recorder)
if bad then return bad end
local revoked, revoked_at = watermark(k.meta)

local users = {}
for i = 1, number_of_users do
  local user = user_keys(ARGV[ARGS + i], 13 + 4 * i)
  user.card = redis.pcall('SCARD', user.live)
  users[i] = user
end

local first_record, first_ref, chosen, refs = 17 + 4 * number_of_users, ARGS + 1 + number_of_users, {}, {}
for at = first_ref, #ARGV, 3 do
  local user, sid = users[tonumber(ARGV[at])], ARGV[at + 1]
  refs[#refs + 1] = user.uid .. ':' .. sid
  chosen[#refs] = {user = user, sid = sid, ref = refs[#refs], began = tonumber(ARGV[at + 2]),
                   record = KEYS[first_record + #refs - 1], row = false, how = false}
end
local logins, due = redis.call('ZMSCORE', k.sessions, unpack(refs)), redis.call('ZMSCORE', k.deadlines, unpack(refs))
local kicked_how = add_given({'e', 'kicked', 'ea', ms(now), 'ec', 'staff', 'eb', by},
                             {en = note_id, em = message_id, et = ticket})

-- How this session ends now, or nil; an incomplete one is left to maintenance/settle_sessions.lua.
local function end_of(e)
  local row = redis.pcall('HMGET', e.record, COUNTED_FIELDS)
  if row[R.end_reason] or not is_intact(row[R.seen], row[R.core]) then return end
  e.row = row
  local deadline, login, is_absolute = deadline_of(tonumber(row[R.seen]), row[R.core])
  if is_revoked(now, login, deadline, revoked, revoked_at) then return revoked_end(k.meta) end
  if now >= deadline then return expired_end(deadline, is_absolute, row[R.idp_end]) end
  if login == e.began then return kicked_how end -- otherwise a later session has this id
end

local results, ends, kicked = {}, {}, {}
for i, e in ipairs(chosen) do
  local is_foreign = type(e.user.card) == 'table'
  results[i] = is_foreign and -1 or 0
  if not is_foreign and (logins[i] or due[i]) then -- either list is enough, because the other may be lost
    e.how = end_of(e)
    if e.how then ends[#ends + 1] = e end
    if e.how == kicked_how then results[i], kicked[#kicked + 1] = 1, e end
  end
end

-- Nothing below can fail.
remove_from_lists(k, policy, ends)
write_tombstones(k, policy, ends)
if #kicked > 0 and policy.keep.kicked > 0 then
  keep_text(note_key, note_id, note, policy.keep.kicked)
  keep_text(message_key, message_id, message, policy.keep.kicked)
end
if #kicked > 0 and recorded_by == 'job' then
  redis.pcall('HINCRBY', recorder, 'kicked', #kicked) -- a value that is no number stops no kick
  redis.call('EXPIRE', recorder, 7776000, 'NX') -- 90 days: longer than any job runs
elseif recorded_by == 'audit' then
  for _, e in ipairs(kicked) do
    write_audit_entry(recorder, policy.audit, ms(now), by, 'kick', {uid = e.user.uid, session = e.sid, reason = note,
      message = message, ticket = ticket}, 'ended', 1)
  end
end
return results
