#!lua flags=no-writes
-- How many users of this shard were seen of late and have a live session. Exact where at most a thousand sessions wait
-- for a sweep; else as of the last one, and never more than there are live sessions.
-- include: time
-- include: left
-- include: alive
-- KEYS: 1 users 2 sessions 3 deadlines 4 meta
-- ARGV: 1 now|'' 2 prefix of users' keys 3 seen within, ms
-- returns: how many
local MOST = 1000
local now, revoked = clock(ARGV[1]), redis.call('HGET', KEYS[4], 'revoked')
local since = now - ARGV[3]
local count = redis.call('ZCOUNT', KEYS[1], ms(since), '+inf')
local due = redis.call('ZRANGE', KEYS[3], '-inf', ms(now), 'BYSCORE', 'LIMIT', 0, MOST)
local killed = revoked and redis.call('ZRANGE', KEYS[2], '-inf', revoked, 'BYSCORE', 'LIMIT', 0, MOST) or {}
if #due < MOST and #killed < MOST then
  local known, uids = {}, {}
  for _, refs in ipairs({due, killed}) do
    for _, ref in ipairs(refs) do
      local uid = string.match(ref, '^(.*):')
      if uid and not known[uid] then
        known[uid] = true
        uids[#uids + 1] = uid
      end
    end
  end
  if #uids == 0 then return count end
  local dead = dead_of(now, KEYS[2], KEYS[3], ARGV[2], tonumber(revoked or nil), uids)
  for i, seen in ipairs(redis.call('ZMSCORE', KEYS[1], unpack(uids))) do
    if seen and tonumber(seen) >= since and dead[uids[i]] then count = count - 1 end
  end
  return count
end
return math.min(count, (live_sessions(now, KEYS[2], KEYS[3], revoked)))
