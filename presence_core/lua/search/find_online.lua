#!lua flags=no-writes
-- Which of these users are online: they have a live session on this shard.
-- include: search/offline_users
-- KEYS: 1 users 2 sessions 3 deadlines 4 meta
-- ARGV: 1 now|'' 2 prefix of users' keys 3… uids, at most 1000
-- returns: a 1 or a 0 for each, in one text
local users, sessions, deadlines, meta = unpack(KEYS)
local now, prefix, uids = clock(ARGV[1]), ARGV[2], {unpack(ARGV, 3)}
local marks, listed = redis.call('ZMSCORE', users, unpack(uids)), {}
for i, uid in ipairs(uids) do
  if marks[i] then listed[#listed + 1] = uid end
end
local offline = offline_among(now, sessions, deadlines, meta, prefix, listed)
for i, uid in ipairs(uids) do marks[i] = marks[i] and not offline[uid] and '1' or '0' end
return table.concat(marks)
