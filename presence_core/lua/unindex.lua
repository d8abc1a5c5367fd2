#!lua flags=allow-oom
-- Takes entries out of the index of words, if what was read of their user still holds: nobody has logged in since,
-- nor left a name. While ends wait for their tombstones, a name may still be on its way into `person`.
-- KEYS: 1 words 2 user's live ids 3 person 4 people 5 closing, then a record for each session
-- ARGV: 1 uid 2 when last seen, offline, ms|'' 3 person's name 4 aliases 5 number of sessions, then for each sid, name,
--       aliases; then the entries
-- returns: how many went
local function same(row, name, aliases) return not row.err and (row[1] or '') == name and (row[2] or '') == aliases end
local n, seen = tonumber(ARGV[5]), redis.call('ZSCORE', KEYS[4], ARGV[1])
if redis.call('HLEN', KEYS[5]) > 0 or tonumber(seen or -1) ~= tonumber(ARGV[2] ~= '' and ARGV[2] or -1) then return 0 end
if redis.pcall('SCARD', KEYS[2]) ~= n or not same(redis.pcall('HMGET', KEYS[3], 'n', 'a'), ARGV[3], ARGV[4]) then return 0 end
for i = 1, n do
  local at = 3 + 3 * i
  if redis.call('SISMEMBER', KEYS[2], ARGV[at]) == 0 then return 0 end
  if not same(redis.pcall('HMGET', KEYS[5 + i], 'n', 'a'), ARGV[at + 1], ARGV[at + 2]) then return 0 end
end
return redis.call('ZREM', KEYS[1], unpack(ARGV, 6 + 3 * n))
