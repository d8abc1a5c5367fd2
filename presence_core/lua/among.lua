#!lua flags=no-writes
-- Which of these users are online: they have a live session on this shard.
-- include: time
-- include: alive
-- KEYS: 1 users 2 sessions 3 deadlines 4 meta
-- ARGV: 1 now|'' 2 prefix of users' keys 3… uids, at most 1000
-- returns: a 1 or a 0 for each, in one text
local answer, online = redis.call('ZMSCORE', KEYS[1], unpack(ARGV, 3)), {}
for i = 1, #answer do
  if answer[i] then online[#online + 1] = ARGV[i + 2] end
end
local dead = dead_among(clock(ARGV[1]), KEYS[2], KEYS[3], KEYS[4], ARGV[2], online)
for i = 1, #answer do answer[i] = answer[i] and not dead[ARGV[i + 2]] and '1' or '0' end
return table.concat(answer)
