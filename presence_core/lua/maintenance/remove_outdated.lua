#!lua flags=allow-oom
-- Removes people who have been away for too long, with their entries in the index of words, and ends that are no longer
-- kept. Notes the time of the latest end that was removed early, because of the cap. The entries of a person stay while
-- staff have a session on behalf of them: a search finds it by these.
-- include: clock
-- KEYS: 1 people 2 ended 3 words 4 meta, then for each uid person, live ids; then a record for each ref
-- ARGV: 1 now|'' 2 seconds that people are kept 3 number of uids U, then for each uid: uid, number of entries, entries;
--       then refs
-- returns: how many were removed
local people, ended, words, meta = unpack(KEYS)
local given_now, keep_people, number_of_uids = unpack(ARGV)
local latest, first_person, at, removed = clock(given_now) - tonumber(keep_people) * 1000, 5, 4, 0
local first_record = first_person + 2 * number_of_uids
redis.call('ZCARD', ended) -- a key of a foreign type ends this before anything is written
redis.call('ZCARD', words)
redis.call('HLEN', meta)

for i = first_person, first_record - 1, 2 do
  local uid, entries = ARGV[at], tonumber(ARGV[at + 1])
  local seen = redis.call('ZSCORE', people, uid)
  if seen and tonumber(seen) <= latest then
    removed = removed + redis.call('ZREM', people, uid)
    if entries > 0 and redis.call('EXISTS', KEYS[i + 1]) == 0 then
      redis.call('ZREM', words, unpack(ARGV, at + 2, at + 1 + entries))
    end
    redis.call('UNLINK', KEYS[i])
  end
  at = at + 2 + entries
end

local removed_early = 0 -- the time of the latest one, ms
for i = first_record, #KEYS do
  local ref, record = ARGV[at + i - first_record], KEYS[i]
  local row = redis.pcall('HMGET', record, 'c', 'e')
  local core, end_reason = row[1], row[2]
  if row.err or end_reason or not core then -- it is no live session
    if end_reason then removed_early = math.max(removed_early, tonumber(redis.call('ZSCORE', ended, ref) or 0)) end
    redis.call('UNLINK', record)
    removed = removed + redis.call('ZREM', ended, ref)
  end
end
local noted = tonumber(redis.call('HGET', meta, 'ended_from') or 0)
if removed_early >= noted and removed_early > 0 and removed_early < 1e15 then
  redis.call('HSET', meta, 'ended_from', ms(math.floor(removed_early) + 1))
end
return removed
