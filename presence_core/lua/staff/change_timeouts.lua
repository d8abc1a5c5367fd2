#!lua flags=allow-oom
-- Change the timeouts of live sessions of one user: in the record, in its TTL and in the lists that have deadlines. No
-- other script changes them.
-- include: sessions/session_state
-- include: sessions/on_behalf
-- include: sessions/list_on_behalf
-- include: sessions/end_session
-- include: staff/audit_entry
-- KEYS: 1 sessions 2 deadlines 3 closing 4 meta 5 audit, or the bulk job 6 devices 7 sessions on behalf of users
--       8… the record of each session; then the messages of sign-ins that are required of them
-- ARGV: 1 now|'' 2 record TTL 0|1 3 most audit entries 4 uid 5 by 6 reason 7 session id|'' (of the audit entry)
--       8 idle s|'' 9 absolute s|'' (each session keeps its own) 10 the most of an absolute timeout on behalf of the
--       user, s 11 only shorten 0|1 12 audit (an entry)|job (it counts the changed sessions) 13 logins before, ms|''
--       14 epoch of the job's runner|'' (changes that a failover has lost; no job) 15 number of sids, 16… sids
-- returns: {now, {sid, last seen, core, …}} of the live sessions among them; {field}: this timeout of one of them would
--          be longer, so nothing was changed; 0: that epoch of the job has ended, and nothing was changed
local sessions, deadlines, closing, meta, recorder, devices, on_behalf = unpack(KEYS, 1, 7)
local given_now, ttl, max_audit, uid, by, reason, session, given_idle, given_absolute, most_on_behalf, only_shorten,
  recorded_by, before, epoch, number = unpack(ARGV, 1, ARGS)
local now, found = clock(given_now), {}
if epoch ~= '' and redis.call('HGET', recorder, 'fence') ~= epoch then return 0 end -- see fencing_epoch.lua
redis.call('ZCARD', deadlines)
if recorded_by == 'audit' then redis.call('XLEN', recorder) end

-- A session that is older than its new timeout ends now: a deadline in the past would change what has been reported.
-- The end that the identity provider has set does not move.
local function new_timeouts(sid, seen, login, idle, absolute, idp_end)
  local new_absolute = tonumber(given_absolute) or absolute
  if given_absolute ~= '' and is_on_behalf(sid) then new_absolute = math.min(new_absolute, most_on_behalf) end
  if idp_end and #idp_end == 8 then
    new_absolute = math.min(new_absolute, math.floor((struct.unpack('>I8', idp_end) - login) / 1000))
  end
  new_absolute = math.max(new_absolute, math.floor((now - login) / 1000))
  local new_idle = math.min(tonumber(given_idle) or idle, new_absolute)
  return math.max(new_idle, math.floor((now - seen) / 1000)), new_absolute
end

for i = 1, number do
  local sid, record = ARGV[ARGS + i], KEYS[7 + i]
  local ref = uid .. ':' .. sid
  local state, row = state_of(now, sessions, closing, meta, ref, record)
  local login, idle, absolute
  if state == LIVE then login, idle, absolute = struct.unpack('>I8I4I4', row[R.core]) end
  if login and login < (tonumber(before) or math.huge) then
    local new_idle, new_absolute = new_timeouts(sid, tonumber(row[R.seen]), login, idle, absolute,
                                               row[R.idp_end])
    if only_shorten == '1' then
      if new_absolute > absolute then return {'absolute_timeout'} end
      if new_idle > idle then return {'idle_timeout'} end
    end
    local core = struct.pack('>I8I4I4', login, new_idle, new_absolute) .. string.sub(row[R.core], 17)
    found[#found + 1] = {sid = sid, ref = ref, record = record, seen = row[R.seen], core = core,
                         is_new = core ~= row[R.core],
                         absolute = new_absolute, last = login + new_absolute * 1000}
  end
end

local changed, number_of_new, longest = {}, 0, {absolute = 0}
for _, e in ipairs(found) do
  redis.call('HSET', e.record, 'c', e.core)
  redis.call('ZADD', deadlines, 'XX', ms((deadline_of(tonumber(e.seen), e.core))), e.ref)
  if ttl == '1' then redis.call('PEXPIREAT', e.record, ms(e.last + 86400000)) end
  if is_on_behalf(e.sid) then list_on_behalf(on_behalf, {ttl = ttl == '1'}, now, e.ref, e.last) end
  if e.absolute > longest.absolute then longest = e end
  if e.is_new then number_of_new = number_of_new + 1 end
  changed[#changed + 1], changed[#changed + 2], changed[#changed + 3] = e.sid, e.seen, e.core
end
if longest.core then extend_devices({ttl = ttl == '1'}, devices, longest.core) end
for i = 8 + number, #KEYS do redis.call('EXPIRE', KEYS[i], longest.absolute + 86400, 'GT') end
if recorded_by == 'audit' then
  write_audit_entry(recorder, max_audit, ms(now), by, 'change_timeouts',
                    {uid = uid, session = session, reason = reason}, 'changed', #found, 'idle', given_idle,
                    'absolute', given_absolute)
elseif number_of_new > 0 then
  redis.pcall('HINCRBY', recorder, 'kicked', number_of_new) -- a value that is no number stops no change
  redis.call('EXPIRE', recorder, 7776000, 'NX') -- as kick_sessions.lua does
end
return {now, changed}
