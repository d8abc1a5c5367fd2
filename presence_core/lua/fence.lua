#!lua flags=allow-oom
-- From here on only the runner of a bulk kick that has this epoch ends sessions on this shard, or one of a later epoch.
-- include: epoch
-- KEYS: 1 job
-- ARGV: 1 epoch
-- returns: {the epoch that may end sessions here now, sessions that the job has ended here|''}
local row = redis.call('HMGET', KEYS[1], 'fence', 'kicked')
local fence, epoch = whole(row[1]), tonumber(ARGV[1])
if fence <= epoch then
  fence = epoch
  redis.call('HSET', KEYS[1], 'fence', ARGV[1])
  redis.call('EXPIRE', KEYS[1], 7776000, 'NX') -- as finish.lua does
end
return {fence, row[2] or ''}
