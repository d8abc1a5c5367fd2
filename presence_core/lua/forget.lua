#!lua flags=allow-oom
-- Forgets people who have been away for too long, with what search knew of them, and ends that nobody keeps any more.
-- include: time
-- KEYS: 1 people 2 ended 3 words, then for each uid person, then a record for each ref
-- ARGV: 1 now|'' 2 people's seconds 3 number of uids U, then for each uid: uid, number of entries, entries; then refs
-- returns: how many were forgotten
local latest, n = clock(ARGV[1]) - tonumber(ARGV[2]) * 1000, tonumber(ARGV[3])
local forgotten, at = 0, 4
redis.call('ZCARD', KEYS[2])
redis.call('ZCARD', KEYS[3])
for i = 1, n do
  local uid, entries = ARGV[at], tonumber(ARGV[at + 1])
  local seen = redis.call('ZSCORE', KEYS[1], uid)
  if seen and tonumber(seen) <= latest then
    forgotten = forgotten + redis.call('ZREM', KEYS[1], uid)
    if entries > 0 then redis.call('ZREM', KEYS[3], unpack(ARGV, at + 2, at + 1 + entries)) end
    redis.call('UNLINK', KEYS[3 + i])
  end
  at = at + 2 + entries
end
for i = 0, #ARGV - at do
  local record = KEYS[4 + n + i]
  local row = redis.pcall('HMGET', record, 'c', 'e')
  if row.err or row[2] or not row[1] then
    redis.call('UNLINK', record)
    forgotten = forgotten + redis.call('ZREM', KEYS[2], ARGV[at + i])
  end
end
return forgotten
