#!lua
-- What a mover writes into a shard that it has closed to others; nothing once it has lost it: a process that was stopped
-- and wakes later must not write what was true then.
-- KEYS: 1 moved 2… every key of the commands
-- ARGV: 1 token 2… for each command: how many words, and they
-- returns: 1, or 0: another holds the shard, or it has been opened
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then return 0 end
local function is_there(command, key, id) -- sent again since its reply was lost: no entry can be added twice
  return command == 'XADD' and #redis.call('XRANGE', key, id, id) > 0
end
local at = 2
while at <= #ARGV do
  local words = tonumber(ARGV[at])
  if not is_there(unpack(ARGV, at + 1, at + 3)) then redis.call(unpack(ARGV, at + 1, at + words)) end
  at = at + words + 1
end
return 1
