#!lua flags=allow-oom
-- End sessions of one user, by logout or kick: one, or all but those to keep. A session whose record is declared gets
-- its tombstone in this step. Any other is no longer live, and maintenance/settle_sessions.lua writes its tombstone.
-- include: staff/block_record
-- include: sessions/end_session
-- include: sessions/tombstone
-- include: staff/audit_entry
-- include: staff/kept_text
-- KEYS: 1-13 Shard.lists 14-17 Shard.of_user 18 audit 19 note 20 message 21 block 22 blocks 23… records
-- ARGV: 1 now|'' 2 policy 3 uid 4 end_reason 5 cause 6 by 7 note id|'' 8 note 9 message id|'' 10 message 11 ticket|''
--       12 block for seconds|'' (no block)
--       13 audit|silent (no audit entry)
--       14 login ms at which it began|'' 15 one|all 16 number of records 17… their session ids, then those to keep
-- returns: {{sids that this call ended}, {sids found past their deadline, ended as expired},
--          {for each record of a live session the values of its fields, or {}},
--          the block as it is now, or {}, now,
--          latest login ms of those that this call ended, 0 without}
local k = shard_keys()
local audit, note_key, message_key, block, blocks = unpack(KEYS, 18, 22)
local given_now, packed_policy, uid, end_reason, cause, by, note_id, note, message_id, message, ticket, block_for,
  recorded_by, began, mode, number_of_records = unpack(ARGV, 1, ARGS)
local now, policy, user = clock(given_now), read_policy(packed_policy), user_keys(uid, 14)
local revoked, revoked_at = watermark(k.meta)
local action = ({idp_logout = 'idp_logout', denied = 'deny_login'})[cause] or end_reason == 'kicked' and 'kick'
local is_audited = recorded_by == 'audit' and action
local sids = mode == 'one' and {ARGV[ARGS + 1]} or redis.call('SMEMBERS', user.live)
user.card = mode == 'one' and redis.call('SCARD', user.live) or #sids
if mode == 'all' and user.card == 0 and redis.call('ZSCORE', k.users, uid) then
  return redis.error_reply('WRONGTYPE ' .. user.live .. ' is lost although the user is online')
end

local place, rows, keep = {}, {}, {}
for i = 1, number_of_records do place[ARGV[ARGS + i]], rows[i] = i, {} end
for i = ARGS + 1 + number_of_records, #ARGV do keep[ARGV[i]] = true end
local chosen, refs = {}, {}
for _, sid in ipairs(sids) do
  if not keep[sid] then chosen[#chosen + 1], refs[#refs + 1] = sid, uid .. ':' .. sid end
end
local logins = #refs > 0 and redis.call('ZMSCORE', k.sessions, unpack(refs)) or {}
local due = #refs > 0 and redis.call('ZMSCORE', k.deadlines, unpack(refs)) or {}

local ends, done, late, newest, is_to_note = {}, {}, {}, 0, false
local stray_sids, stray_refs = {}, {} -- of sessions that have ended, left in a list
local stamp = ms(now)
local given_how = add_given({'e', end_reason, 'ea', stamp, 'ec', cause, 'eb', by},
                            {en = note_id, em = message_id, et = ticket})

-- `row`: the values of the record's fields, or nil where it is not declared.
local function add_end(i, login, deadline, expired_how, row)
  local ended, how = done, given_how
  if is_revoked(now, login, deadline, revoked, revoked_at) then
    ended, how = late, revoked_end(k.meta)
  elseif now >= deadline then
    ended, how = late, expired_how
  elseif began ~= '' and login ~= tonumber(began) then
    return -- a later session has this id
  else
    newest = math.max(newest, login)
  end
  ended[#ended + 1] = chosen[i]
  ends[#ends + 1] = {user = user, sid = chosen[i], ref = refs[i], how = how, row = row,
                     record = row and KEYS[22 + place[chosen[i]]]}
  is_to_note = is_to_note or not row
end

local function add_stray(i) stray_sids[#stray_sids + 1], stray_refs[#stray_refs + 1] = chosen[i], refs[i] end

-- An incomplete session is left to maintenance/settle_sessions.lua.
local function end_with_record(i, at)
  local row = redis.pcall('HMGET', KEYS[22 + at], COUNTED_FIELDS)
  if row[R.end_reason] then return add_stray(i) end
  if not is_intact(row[R.seen], row[R.core]) then return end
  rows[at] = row
  local deadline, login, is_absolute = deadline_of(tonumber(row[R.seen]), row[R.core])
  add_end(i, login, deadline, now >= deadline and expired_end(deadline, is_absolute, row[R.idp_end]), row)
end

for i, sid in ipairs(chosen) do
  if not logins[i] and not due[i] then -- either list is enough, because the other may be lost
    add_stray(i)
  elseif place[sid] then
    end_with_record(i, place[sid])
  elseif logins[i] then
    add_end(i, tonumber(logins[i]), tonumber(due[i] or math.huge), {'e', 'expired', 'ea', due[i]})
  end
end

-- The types of the keys that are about to be written and that nothing above has read.
local bad = #ends > 0 and foreign('ZCARD', k.users, 'ZCARD', k.people, 'ZCARD', k.ended, 'XLEN', k.events,
                                  'HLEN', k.totals)
  or is_to_note and foreign('HLEN', k.closing)
  or is_audited and foreign('XLEN', audit)
  or block_for ~= '' and foreign('HLEN', block, 'ZCARD', blocks)
if bad then return bad end

-- Nothing below can fail.
if mode == 'all' and #stray_sids > 0 then
  user.card = user.card - redis.call('SREM', user.live, unpack(stray_sids))
  redis.call('ZREM', k.sessions, unpack(stray_refs))
  redis.call('ZREM', k.deadlines, unpack(stray_refs))
end
remove_from_lists(k, policy, ends)
local recorded, unrecorded = {}, {}
for _, e in ipairs(ends) do
  local part = e.row and recorded or unrecorded
  part[#part + 1] = e
end
write_tombstones(k, policy, recorded)
note_in_closing(k, unrecorded)
if #done > 0 and policy.keep[end_reason] > 0 then
  keep_text(note_key, note_id, note, policy.keep[end_reason])
  keep_text(message_key, message_id, message, policy.keep[end_reason])
end
local block_row, block_fields = {}, {}
if block_for ~= '' then
  block_row, block_fields = write_block(policy, block, blocks, uid, now, {by = by, reason = note, message = message,
    ticket = ticket, at = stamp, changed = stamp, ['until'] = block_end(now, block_for)})
end
if is_audited then
  write_audit_entry(audit, policy.audit, stamp, by, action, {uid = uid, session = mode == 'one' and sids[1],
    reason = note, message = message, ticket = ticket}, 'ended', #done, unpack(block_fields))
end
return {done, late, rows, block_row, now, newest}
