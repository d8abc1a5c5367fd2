#!lua
-- Writes what the copier has read into a shard that is closed to other processes. Nothing once the coordinator has lost
-- the shard: a process that was stopped and goes on later must not write what was true before.
-- KEYS: 1 moved 2… every key of the commands
-- ARGV: 1 token 2… for each command: its number of words, its words
-- returns: 1, or 0: another coordinator has claimed the shard, or it was opened
local fence, token = KEYS[1], ARGV[1]
if redis.call('HGET', fence, 'token') ~= token then return 0 end
local function was_added(command, key, id) -- sent again, because its reply was lost: an entry cannot be added twice
  return command == 'XADD' and #redis.call('XRANGE', key, id, id) > 0
end
local at = 2
while at <= #ARGV do
  local words = tonumber(ARGV[at])
  if not was_added(unpack(ARGV, at + 1, at + 3)) then redis.call(unpack(ARGV, at + 1, at + words)) end
  at = at + words + 1
end
return 1
