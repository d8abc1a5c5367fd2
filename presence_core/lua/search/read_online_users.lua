#!lua flags=no-writes
-- Read a page of the users who were seen recently and have a live session on this shard, in the order of last seen.
-- include: search/page_by_last_seen
-- include: search/offline_users
-- KEYS: 1 users 2 sessions 3 deadlines 4 meta
-- ARGV: 1 now|'' 2 prefix of users' keys 3 seen within, ms 4 how many to read 5, 6 last seen and uid at which this page
--       begins|''
-- returns: {{uid, last seen, …}, last seen and uid at which the next page begins|''}
local users, sessions, deadlines, meta = unpack(KEYS)
local now, prefix, within, limit, seen, uid = clock(ARGV[1]), unpack(ARGV, 2)
local flat, next_seen, next_uid = page_by_last_seen(users, ms(now - within), '+inf', limit, seen, uid)
local uids, online = {}, {}
for i = 1, #flat, 2 do uids[#uids + 1] = flat[i] end
local offline = offline_among(now, sessions, deadlines, meta, prefix, uids)
for i = 1, #flat, 2 do
  if not offline[flat[i]] then
    local n = #online
    online[n + 1], online[n + 2] = flat[i], flat[i + 1]
  end
end
return {online, next_seen, next_uid}
