#!lua flags=allow-oom
-- A worker shows that it is there: who leads goes on leading, or leads from here on if nobody does. Who holds the lead is
-- decided by when its beat was, not by a time to live: a clock that jumps must not wipe out what shows that it jumped.
-- include: time
-- KEYS: 1 worker
-- ARGV: 1 now|'' 2 token 3 who 4 how long the lead holds without a beat, ms 5 lead|leave
--       6 1: the clock as it is now is right, whoever leads
--       7… field, value: what the leader reports, written only if this is the leader
-- returns: {leads 0|1, now, when the operator last accepted the clock|'', Redis's clock, ms|'', the wall clock beside it|''}
--   the last two as they stood before this call
local now, token = clock(ARGV[1]), ARGV[2]
local row = redis.call('HMGET', KEYS[1], 'token', 'beat', 'ttl', 'accepted', 'redis', 'wall')
local beat, ttl = tonumber(row[2] or ''), tonumber(row[3] or '')
-- A beat from the future is one from before the clock was set back.
local held = row[1] and beat and ttl and beat <= now and now < beat + ttl
local leads = row[1] == token
if ARGV[5] == 'leave' then
  if leads then redis.call('HDEL', KEYS[1], 'token') end
  return {0, ms(now), '', '', ''}
end
if ARGV[6] == '1' then
  row[4] = ms(now)
  redis.call('HSET', KEYS[1], 'accepted', row[4])
end
if not leads and not held then
  leads = true
  redis.call('HSET', KEYS[1], 'token', token, 'who', ARGV[3], 'since', ms(now))
end
if leads then
  redis.call('HSET', KEYS[1], 'beat', ms(now), 'ttl', ARGV[4])
  if #ARGV > 6 then redis.call('HSET', KEYS[1], unpack(ARGV, 7)) end
end
return {leads and 1 or 0, ms(now), row[4] or '', row[5] or '', row[6] or ''}
