#!lua flags=allow-oom
-- Removes blocks whose end is in the past, or that are listed and gone. It checks each one again: a user may have been
-- blocked again since a read found this.
-- include: clock
-- include: sessions/end_session
-- include: staff/block_record
-- KEYS: 1 blocks, then a block for each uid
-- ARGV: 1 now|'', then uids
-- returns: how many were removed
local blocks, now, removed = KEYS[1], clock(ARGV[1]), 0
local bad = foreign('ZCARD', blocks)
if bad then return bad end
for i = 2, #ARGV do
  local block, uid = KEYS[i], ARGV[i]
  local ends = redis.pcall('HMGET', block, 'until')
  if not ends.err and not is_blocked(now, ends[1]) then
    redis.call('UNLINK', block)
    removed = removed + redis.call('ZREM', blocks, uid)
  end
end
return removed
