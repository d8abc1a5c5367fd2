#!lua flags=allow-oom
-- A worker's beat: the leader keeps the lead; without a leader this worker takes it. The time of the last beat decides
-- whether the lead is taken, and no time to live: if the clock jumps, the fields that show the jump must not expire.
-- include: clock
-- KEYS: 1 worker
-- ARGV: 1 now|'' 2 token 3 name of the worker 4 how long the lead lasts without a beat, ms 5 lead|leave
--       6 1: an operator accepts the clock as it is, whichever worker leads
--       7… field, value: what the leader reports, written only if this worker leads
-- returns: {leads 0|1, now, when an operator last accepted the clock|'', Redis's clock, ms|'', the worker's clock|''}
--   the last two as they were before this call
local worker = KEYS[1]
local given_now, token, name, lead_ms, act, accept = unpack(ARGV)
local now, has_report = clock(given_now), #ARGV > 6
local leader, beat, ttl, accepted, redis_clock, wall_clock =
  unpack(redis.call('HMGET', worker, 'token', 'beat', 'ttl', 'accepted', 'redis', 'wall'))
beat, ttl = tonumber(beat or ''), tonumber(ttl or '')
local leads = leader == token
if act == 'leave' then
  if leads then redis.call('HDEL', worker, 'token') end
  return {0, ms(now), '', '', ''}
end
if accept == '1' then
  accepted = ms(now)
  redis.call('HSET', worker, 'accepted', accepted)
end
local is_taken = leader and beat and ttl and beat <= now and now < beat + ttl -- a later beat: the clock was set back
if not leads and not is_taken then
  leads = true
  redis.call('HSET', worker, 'token', token, 'who', name, 'since', ms(now))
end
if leads then
  redis.call('HSET', worker, 'beat', ms(now), 'ttl', lead_ms)
  if has_report then redis.call('HSET', worker, unpack(ARGV, 7)) end
end
return {leads and 1 or 0, ms(now), accepted or '', redis_clock or '', wall_clock or ''}
