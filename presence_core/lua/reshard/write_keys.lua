#!lua
-- Writes what the copier has read into a shard that is closed to other processes. Nothing once the coordinator has lost
-- the shard: a process that was stopped and goes on later must not write what was true before.
-- KEYS: 1 moved 2… every key of the commands
-- ARGV: 1 token 2… for each command: its number of words, its words
-- returns: 1, or 0: another coordinator has claimed the shard, or it was opened
local fence, token = KEYS[1], ARGV[1]
if redis.call('HGET', fence, 'token') ~= token then return 0 end
local function was_added(key, id) -- sent again, because its reply was lost: an entry cannot be added twice
  return #redis.call('XRANGE', key, id, id) > 0
end
local at, number = 2, #ARGV
while at <= number do
  local last, command, key, id = at + ARGV[at], unpack(ARGV, at + 1, at + 3)
  if command ~= 'XADD' or not was_added(key, id) then redis.call(unpack(ARGV, at + 1, last)) end
  at = last + 1
end
return 1
