#!lua flags=allow-oom
-- What one coordinator holds during a reshard: the right to reshard, and the fences of the shards, which note changes
-- or refuse other processes. Unless it is renewed it expires, so that a coordinator that died blocks no other process.
-- KEYS: 1 moved (of a shard), or moving
-- ARGV: 1 what to do: take: hold it, unless another coordinator does; seize: hold it in any case resume: hold it, if
--         all changes since that copy was begun have been noted turn: to another state; renew; seal: it no longer
--         expires; close: for good; release 2 token 3 ms that it holds 4 copying|frozen|coming, for take, seize and
--         turn 5 the copy|'', for seize and resume
-- returns: 1, or 0: another coordinator holds it, or it has expired
local fence = KEYS[1]
local act, token, hold, new_state, new_copy = unpack(ARGV)
local holder, state, copy = unpack(redis.call('HMGET', fence, 'token', 'state', 'copy'))
if act == 'take' or act == 'seize' then
  if holder and holder ~= token and act == 'take' then return 0 end
  if state == 'moved' and new_state ~= 'coming' then return 0 end
  redis.call('PEXPIRE', fence, hold) -- a user who may not set an expiry is refused before anything is held for ever
  redis.call('UNLINK', fence)
  redis.call('HSET', fence, 'state', new_state, 'token', token, 'copy', new_copy)
elseif act == 'resume' then
  if state ~= 'copying' or copy ~= new_copy then return 0 end
  redis.call('HSET', fence, 'token', token)
elseif holder ~= token then
  return 0
end
if act == 'turn' then redis.call('HSET', fence, 'state', new_state) end
if act == 'seal' then
  redis.call('PERSIST', fence)
elseif act == 'close' then
  redis.call('HSET', fence, 'state', 'moved')
elseif act == 'release' then
  redis.call('UNLINK', fence)
else
  redis.call('PEXPIRE', fence, hold)
end
return 1
