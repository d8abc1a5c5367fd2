#!lua flags=no-writes
-- Count the users of this shard who were seen recently and have a live session. Exact where at most a thousand sessions
-- wait for a sweep; else as of the last sweep, and never more than there are live sessions.
-- include: search/live_count
-- include: search/offline_users
-- KEYS: 1 users 2 sessions 3 deadlines 4 meta
-- ARGV: 1 now|'' 2 prefix of users' keys 3 seen within, ms
-- returns: how many
local MAX_READ = 1000
local users, sessions, deadlines, meta = unpack(KEYS)
local now, prefix, within = clock(ARGV[1]), ARGV[2], ARGV[3]
local since = now - within
local revoked = redis.call('HGET', meta, 'revoked')
local count = redis.call('ZCOUNT', users, ms(since), '+inf')
local due = redis.call('ZRANGE', deadlines, '-inf', ms(now), 'BYSCORE', 'LIMIT', 0, MAX_READ)
local killed = revoked and redis.call('ZRANGE', sessions, '-inf', revoked, 'BYSCORE', 'LIMIT', 0, MAX_READ) or {}
if #due == MAX_READ or #killed == MAX_READ then
  return math.min(count, (live_sessions(now, sessions, deadlines, revoked)))
end
local uids = owners_of(nil, due, killed)
if #uids == 0 then return count end
local offline = without_live_session(now, sessions, deadlines, prefix, tonumber(revoked or nil), uids)
for i, seen in ipairs(redis.call('ZMSCORE', users, unpack(uids))) do
  if seen and tonumber(seen) >= since and offline[uids[i]] then count = count - 1 end
end
return count
