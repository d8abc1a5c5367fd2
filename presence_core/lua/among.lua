#!lua flags=no-writes
-- Which of these users are online: they have a live session on this shard.
-- include: time
-- include: alive
-- KEYS: 1 users 2 sessions 3 deadlines 4 meta
-- ARGV: 1 now|'' 2 prefix of users' keys 3… uids, at most 1000
-- returns: the places (from 0) of those who are
local now, uids, online, places = clock(ARGV[1]), {}, {}, {}
for i = 3, #ARGV do uids[i - 2] = ARGV[i] end
local seen = redis.call('ZMSCORE', KEYS[1], unpack(uids))
for i, uid in ipairs(uids) do
  if seen[i] then online[#online + 1] = uid end
end
local dead = dead_among(now, KEYS[2], KEYS[3], KEYS[4], ARGV[2], online)
for i, uid in ipairs(uids) do
  if seen[i] and not dead[uid] then places[#places + 1] = i - 1 end
end
return places
