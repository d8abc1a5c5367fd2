#!lua flags=allow-oom
-- What one process holds for the time of a move to another number of shards: the right to move, and the fences of the
-- shards, which note what changes or keep others off. Unless it is renewed it ends by itself: whoever died holds up
-- nobody.
-- KEYS: 1 moved (of a shard), or moving
-- ARGV: 1 take (unless another holds it)|seize|resume (where all changes have been noted since that copy was begun)|turn
--       (to another state)|renew|seal (no time ends it any more)|close (for good)|release 2 token 3 ms that it holds
--       4 copying|frozen|coming, for take, seize and turn 5 the copy that is begun, or resumed|''
-- returns: 1, or 0: another holds it, or it has ended
local act, token = ARGV[1], ARGV[2]
local held, state, copy = unpack(redis.call('HMGET', KEYS[1], 'token', 'state', 'copy'))
if act == 'take' or act == 'seize' then
  if held and held ~= token and act == 'take' then return 0 end
  if state == 'moved' and ARGV[4] ~= 'coming' then return 0 end
  redis.call('PEXPIRE', KEYS[1], ARGV[3]) -- who may not set an end is refused before anything is held for ever
  redis.call('UNLINK', KEYS[1])
  redis.call('HSET', KEYS[1], 'state', ARGV[4], 'token', token, 'copy', ARGV[5])
elseif act == 'resume' then
  if state ~= 'copying' or copy ~= ARGV[5] then return 0 end
  redis.call('HSET', KEYS[1], 'token', token)
elseif held ~= token then
  return 0
end
if act == 'turn' then redis.call('HSET', KEYS[1], 'state', ARGV[4]) end
if act == 'seal' then
  redis.call('PERSIST', KEYS[1])
elseif act == 'close' then
  redis.call('HSET', KEYS[1], 'state', 'moved')
elseif act == 'release' then
  redis.call('UNLINK', KEYS[1])
else
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
end
return 1
