#!lua flags=allow-oom
-- Exchange entries of one user in the index of words for those that the user has, if what the caller has read of the
-- user is still so: no login since, no other name. While ends wait for their tombstones, a name may still be on its way
-- into `person`.
-- KEYS: 1 words 2 user's live ids 3 person 4 people 5 closing, then a record for each session
-- ARGV: 1 uid 2 when last seen, offline, ms|'' 3 person's name 4 aliases 5 number of sessions, then for each sid, name,
--       aliases; then the number of entries that the user has, these, and those to be removed
-- returns: how many were removed
local words, live, person, people, closing = unpack(KEYS)
local uid, seen, person_name, person_aliases, number = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
local function has(key, name, aliases)
  local row = redis.pcall('HMGET', key, 'n', 'a')
  return not row.err and (row[1] or '') == name and (row[2] or '') == aliases
end
if redis.call('HLEN', closing) > 0 then return 0 end
if tonumber(redis.call('ZSCORE', people, uid) or -1) ~= tonumber(seen ~= '' and seen or -1) then return 0 end
if redis.pcall('SCARD', live) ~= number or not has(person, person_name, person_aliases) then return 0 end
for i = 1, number do
  local sid, name, aliases = unpack(ARGV, 3 + 3 * i, 5 + 3 * i)
  if redis.call('SISMEMBER', live, sid) == 0 or not has(KEYS[5 + i], name, aliases) then return 0 end
end
-- A start of an alias may be in an entry of a name that is gone: so the entries of today come first.
local first = 7 + 3 * number
local last = first + tonumber(ARGV[first - 1]) - 1
for i = first, last do redis.call('ZADD', words, 0, ARGV[i]) end
return redis.call('ZREM', words, unpack(ARGV, last + 1))
