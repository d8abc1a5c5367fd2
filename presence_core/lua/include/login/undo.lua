-- All or nothing. A Lua error rolls nothing back, so each write says how it is undone, in case that a later one finds a
-- key of a foreign type.
-- include: key_types
local undo_commands = {}

-- Run a command. `undo` undoes it: a command, or nil where nothing needs to be undone.
local function write(undo, ...)
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err then
    local name, key = ...
    if string.find(reply.err, 'ACL failure', 1, true) or string.find(reply.err, "can't run this command", 1, true) then
      error(redis.error_reply('NOPERM ACL failure in script: ' .. name .. ' on ' .. key))
    end
    error(redis.error_reply('WRONGTYPE ' .. key .. ' holds data that presence_core did not write'))
  end
  undo_commands[#undo_commands + 1] = undo
  return reply
end

-- Call `act`, which writes. Returns the error to reply with where one of its writes failed: then all of them are
-- undone.
local function all_or_nothing(act)
  local done, failure = pcall(act)
  if done then return nil end
  for i = #undo_commands, 1, -1 do redis.pcall(unpack(undo_commands[i])) end
  return type(failure) == 'table' and failure or redis.error_reply('ERR ' .. tostring(failure))
end
