#!lua flags=allow-oom
-- Forgets people who have been away for too long, and ends that nobody keeps any more.
-- include: time
-- KEYS: 1 people 2 ended, then a record for each ref
-- ARGV: 1 now|'' 2 people's seconds 3 number of uids U, 4… uids, then refs
-- returns: how many were forgotten
local latest, n = clock(ARGV[1]) - tonumber(ARGV[2]) * 1000, tonumber(ARGV[3])
local forgotten = 0
redis.call('ZCARD', KEYS[2])
for i = 1, n do
  local seen = redis.call('ZSCORE', KEYS[1], ARGV[3 + i])
  if seen and tonumber(seen) <= latest then
    forgotten = forgotten + redis.call('ZREM', KEYS[1], ARGV[3 + i])
  end
end
for i = n + 4, #ARGV do
  local record = KEYS[i - 1 - n]
  local row = redis.pcall('HMGET', record, 'c', 'e')
  if row.err or row[2] or not row[1] then
    redis.call('UNLINK', record)
    forgotten = forgotten + redis.call('ZREM', KEYS[2], ARGV[i])
  end
end
return forgotten
