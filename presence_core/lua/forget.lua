#!lua flags=allow-oom
-- Forgets people who have been away for too long, with what search knew of them, and ends that nobody keeps any more.
-- include: time
-- Notes up to when ends that were still to be kept have gone: those are beyond the cap.
-- KEYS: 1 people 2 ended 3 words 4 meta, then for each uid person, then a record for each ref
-- ARGV: 1 now|'' 2 people's seconds 3 number of uids U, then for each uid: uid, number of entries, entries; then refs
-- returns: how many were forgotten
local latest, n = clock(ARGV[1]) - tonumber(ARGV[2]) * 1000, tonumber(ARGV[3])
local forgotten, at = 0, 4
redis.call('ZCARD', KEYS[2])
redis.call('ZCARD', KEYS[3])
redis.call('HLEN', KEYS[4])
local cut = 0
for i = 1, n do
  local uid, entries = ARGV[at], tonumber(ARGV[at + 1])
  local seen = redis.call('ZSCORE', KEYS[1], uid)
  if seen and tonumber(seen) <= latest then
    forgotten = forgotten + redis.call('ZREM', KEYS[1], uid)
    if entries > 0 then redis.call('ZREM', KEYS[3], unpack(ARGV, at + 2, at + 1 + entries)) end
    redis.call('UNLINK', KEYS[4 + i])
  end
  at = at + 2 + entries
end
for i = 0, #ARGV - at do
  local record = KEYS[5 + n + i]
  local row = redis.pcall('HMGET', record, 'c', 'e')
  if row.err or row[2] or not row[1] then
    if row[2] then cut = math.max(cut, tonumber(redis.call('ZSCORE', KEYS[2], ARGV[at + i]) or 0)) end
    redis.call('UNLINK', record)
    forgotten = forgotten + redis.call('ZREM', KEYS[2], ARGV[at + i])
  end
end
if cut >= tonumber(redis.call('HGET', KEYS[4], 'ended_from') or 0) and cut > 0 and cut < 1e15 then
  redis.call('HSET', KEYS[4], 'ended_from', string.format('%.0f', math.floor(cut) + 1))
end
return forgotten
