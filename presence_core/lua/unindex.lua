#!lua flags=allow-oom
-- Takes entries out of the index of words, if what was read of their user still holds: nobody has logged in since.
-- include: time
-- include: record
-- KEYS: 1 words 2 user's live ids 3 person, then a record for each session
-- ARGV: 1 person's name 2 aliases 3 number of sessions, then for each sid, name, aliases; then the entries
-- returns: how many went
local function same(row, name, aliases) return not row.err and (row[1] or '') == name and (row[2] or '') == aliases end
local n = tonumber(ARGV[3])
if redis.call('SCARD', KEYS[2]) ~= n or not same(redis.call('HMGET', KEYS[3], 'n', 'a'), ARGV[1], ARGV[2]) then return 0 end
for i = 1, n do
  local at = 1 + 3 * i
  if redis.call('SISMEMBER', KEYS[2], ARGV[at]) == 0 then return 0 end
  if not same(redis.pcall('HMGET', KEYS[3 + i], 'n', 'a'), ARGV[at + 1], ARGV[at + 2]) then return 0 end
end
return redis.call('ZREM', KEYS[1], unpack(ARGV, 4 + 3 * n))
