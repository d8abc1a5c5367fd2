#!lua flags=allow-oom
-- Lets go of blocks whose time is over, or that are listed and gone. Looks at each again: a user may have been blocked
-- anew since a read found this.
-- include: time
-- include: ending
-- include: hold
-- KEYS: 1 blocks, then a block for each uid
-- ARGV: 1 now|'', then uids
-- returns: how many were let go
local now, gone = clock(ARGV[1]), 0
local bad = foreign('ZCARD', KEYS[1])
if bad then return bad end
for i = 2, #ARGV do
  local hold = redis.pcall('HMGET', KEYS[i], 'until')
  if not hold.err and not is_held(now, hold[1]) then
    redis.call('UNLINK', KEYS[i])
    gone = gone + redis.call('ZREM', KEYS[1], ARGV[i])
  end
end
return gone
