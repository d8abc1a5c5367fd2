#!lua flags=allow-oom
-- What one coordinator claims for a reshard: the right to reshard, and the fences of the shards, which note changes
-- or refuse other processes. Unless it is renewed it expires, so that a coordinator that died stops no other process.
-- KEYS: 1 moved (of a shard), or moving
-- ARGV: 1 what to do: take: claim it, unless another coordinator has; seize: claim it in any case; resume: claim it, if
--         all changes since that copy was begun have been noted; turn: to another state; renew; seal: it no longer
--         expires; close: for good; release 2 token 3 ms that the claim lasts
--       4 copying|frozen|coming, for take, seize and turn 5 the copy|'', for seize and resume
-- returns: 1, or 0: another coordinator has claimed it, or it has expired
local fence = KEYS[1]
local act, token, claim_ms, new_state, new_copy = unpack(ARGV)
local owner, state, copy = unpack(redis.call('HMGET', fence, 'token', 'state', 'copy'))
if act == 'take' or act == 'seize' then
  if owner and owner ~= token and act == 'take' then return 0 end
  if state == 'moved' and new_state ~= 'coming' then return 0 end
  redis.call('PEXPIRE', fence, claim_ms) -- a user who may not set an expiry is refused before a claim lasts for ever
  redis.call('UNLINK', fence)
  redis.call('HSET', fence, 'state', new_state, 'token', token, 'copy', new_copy)
elseif act == 'resume' then
  if state ~= 'copying' or copy ~= new_copy then return 0 end
  redis.call('HSET', fence, 'token', token)
elseif owner ~= token then
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
  redis.call('PEXPIRE', fence, claim_ms)
end
return 1
