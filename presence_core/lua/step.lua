#!lua flags=allow-oom
-- A step of a move is done: said by the mover whose copy is in use.
-- KEYS: 1 layout
-- ARGV: 1 token with which the fences were sealed 2 the step 3 the next one|'' (there is none)
-- returns: 1, or 0: somebody else has been further
local row = redis.call('HMGET', KEYS[1], 'sealed', 'step')
if (row[1] == ARGV[1] and row[2] == ARGV[3]) or (not row[2] and ARGV[3] == '') then return 1 end -- sent again
if row[1] ~= ARGV[1] or row[2] ~= ARGV[2] then return 0 end
if ARGV[3] == '' then
  redis.call('HDEL', KEYS[1], 'step', 'from', 'token', 'sealed')
else
  redis.call('HSET', KEYS[1], 'step', ARGV[3])
end
return 1
