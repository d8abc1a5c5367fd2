#!lua flags=allow-oom
-- From now on only the runner of a bulk kick that has this epoch, or a later one, ends sessions on this shard.
-- include: bulk_kick/fencing_epoch
-- KEYS: 1 job
-- ARGV: 1 epoch
-- returns: {the epoch whose runner may end sessions on this shard, sessions that the job has ended here|''}
local job, epoch = KEYS[1], tonumber(ARGV[1])
local fence, kicked = unpack(redis.call('HMGET', job, 'fence', 'kicked'))
fence = whole(fence)
if fence <= epoch then
  fence = epoch
  redis.call('HSET', job, 'fence', ARGV[1])
  redis.call('EXPIRE', job, 7776000, 'NX') -- as kick_sessions.lua does
end
return {fence, kicked or ''}
