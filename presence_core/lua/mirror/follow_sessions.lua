#!lua flags=allow-oom
-- Note when mirrored sessions were last seen, and how long they live from then on: the site's store decides both. Last
-- seen never falls (GT); a deadline may fall. No session begins (XX) and no other session changes.
-- include: sessions/session_record
-- include: login/mirrored
-- KEYS: 1 sessions 2 deadlines 3 users 4 meta 5… a record for each ref
-- ARGV: 1 now|'' 2… of each ref: uid, last seen ms, idle s
-- returns: the places (from 1) of those that are not live
local sessions, deadlines, users, meta = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local now, number, revoked = clock(ARGV[1]), #KEYS - 4, watermark(meta)
local refs = {}
for i = 1, number do refs[i] = string.sub(KEYS[i + 4], #sessions + 1) end -- T:session:<ref>
local listed = redis.call('ZMSCORE', sessions, unpack(refs))
local not_live, moved, seen_users = {}, {'XX'}, {'XX', 'GT'}
redis.call('ZCARD', deadlines)
redis.call('ZCARD', users)
for i = 1, number do
  local record, at = KEYS[i + 4], 3 * i - 1
  local uid, given_seen, idle = ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  local row = listed[i] and is_mirrored(string.sub(refs[i], #uid + 2)) and redis.pcall('HMGET', record, 's', 'c') or {}
  local seen, core = row[1], row[2]
  if is_intact(seen, core) then
    local deadline, login = deadline_of(tonumber(seen), core)
    if now < deadline and login > revoked then
      local latest = math.max(tonumber(seen), math.min(given_seen, now))
      core = string.sub(core, 1, 8) .. struct.pack('>I4', idle) .. string.sub(core, 13)
      redis.call('HSET', record, 's', ms(latest), 'c', core)
      moved[#moved + 1], moved[#moved + 2] = ms((deadline_of(latest, core))), refs[i]
      seen_users[#seen_users + 1], seen_users[#seen_users + 2] = ms(latest), uid
    else
      not_live[#not_live + 1] = i
    end
  else
    not_live[#not_live + 1] = i
  end
end
if #moved > 1 then
  redis.call('ZADD', deadlines, unpack(moved))
  redis.call('ZADD', users, unpack(seen_users))
end
return not_live
