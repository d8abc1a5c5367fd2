#!lua flags=no-writes
-- One shard's part of a page: newest login first, from just behind a position.
-- include: time
-- include: left
-- include: place
-- KEYS: 1 sessions 2 deadlines 3 meta
-- ARGV: 1 now|'' 2 how many 3 position's login ms|'' 4 position's ref
-- returns: {now, live sessions, {ref, login ms, …}, that number is exact 0|1}
local now, want, sessions = clock(ARGV[1]), tonumber(ARGV[2]), KEYS[1]
local start = ARGV[3] ~= '' and place_behind(sessions, ARGV[3], ARGV[4]) or 0
local revoked = redis.call('HGET', KEYS[3], 'revoked')
local live, draining, exact = live_sessions(now, sessions, KEYS[2], revoked)
if draining then -- those who were all signed out together are the oldest: the list ends before them
  want = math.min(want, math.max(0, redis.call('ZCOUNT', sessions, '(' .. revoked, '+inf') - start))
  if want == 0 then return {now, live, {}, exact and 1 or 0} end
end
return {now, live, redis.call('ZREVRANGE', sessions, start, start + want - 1, 'WITHSCORES'), exact and 1 or 0}
