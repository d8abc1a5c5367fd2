#!lua flags=allow-oom
-- Note that these sessions were seen. Can only move a live session's deadline forward: XX and GT, never past the
-- absolute one. Not of a session that must sign in again: it stays in the lists, and lives no longer for it.
-- include: sessions/session_record
-- include: sessions/confirmed_clock
-- include: sessions/on_behalf
-- KEYS: 1 sessions 2 deadlines 3 users 4 meta 5… a record for each ref
-- ARGV: 1 now|'' 2… the uid of each ref
-- returns: the places (from 1) of those that are not live; negative where a session is past its deadline by a confirmed
--          clock, so that its end is to be written
local sessions, deadlines, users, meta = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local now, number, revoked = clock(ARGV[1]), #KEYS - 4, watermark(meta)
local stamp, refs = ms(now), {}
for i = 1, number do refs[i] = string.sub(KEYS[i + 4], #sessions + 1) end -- T:session:<ref>
local listed = redis.call('ZMSCORE', sessions, unpack(refs))
local not_live, moved, seen_users = {}, {'XX', 'GT'}, {'XX', 'GT'}
local d, u, last_uid, is_confirmed = 2, 2, nil, nil
local call, pcall, unpack_core, min = redis.call, redis.pcall, struct.unpack, math.min
call('ZCARD', deadlines)
call('ZCARD', users)
for i = 1, number do
  local record = KEYS[i + 4]
  -- pcall and is_intact: the spoiled record of one session must not stop the heartbeats of the others
  local row = listed[i] and pcall('HMGET', record, 's', 'c', 'q') or {}
  local seen, core = row[1], row[2]
  local deadline, login, idle, last
  if is_intact(seen, core) then
    seen = seen + 0 -- a number, in half the time of tonumber
    login, idle, last = unpack_core('>I8I4I4', core)
    idle, last = idle * 1000, login + last * 1000
    deadline = min(seen + idle, last)
  end
  if not deadline or now >= deadline or login <= revoked then
    local is_overdue = deadline and login > revoked
    if is_overdue and is_confirmed == nil then is_confirmed = clock_is_confirmed(now, meta) or false end
    not_live[#not_live + 1] = is_overdue and is_confirmed and -i or i
  elseif now > seen and not row[3] then
    call('HSET', record, 's', stamp)
    moved[d + 1] = ms(min(now + idle, last))
    moved[d + 2] = refs[i]
    d = d + 2
    local uid = ARGV[i + 1]
    if uid ~= last_uid and not is_on_behalf(refs[i], #uid + 1) then
      seen_users[u + 1] = stamp
      seen_users[u + 2] = uid
      u = u + 2
      last_uid = uid
    end
  end
end
if d > 2 then
  redis.call('ZADD', deadlines, unpack(moved))
  if u > 2 then redis.call('ZADD', users, unpack(seen_users)) end
end
return not_live
