-- A Lua error rolls nothing back. So a script checks the types of the keys that it is going to write before it writes.

-- Arguments: a command that fails on a foreign type, and its key; and so on. Returns an error to reply with, or nil.
local function foreign(...)
  for i = 1, select('#', ...), 2 do
    local command, key = select(i, ...)
    local reply = redis.pcall(command, key)
    if type(reply) == 'table' and reply.err then
      if not string.find(reply.err, 'WRONGTYPE', 1, true) then
        return redis.error_reply(reply.err .. ' (command ' .. command .. ')') -- Redis may not name it
      end
      return redis.error_reply('WRONGTYPE ' .. key .. ' holds data that presence_core did not write')
    end
  end
end

-- How many members a SET gained or lost; 0 where the reply is an error, because the key is of a foreign type.
local function count_or_zero(reply) return type(reply) == 'number' and reply or 0 end

-- Call `act` with at most a thousand items at a time: unpack is limited by Lua's stack.
local function in_thousands(items, act)
  for first = 1, #items, 1000 do act(unpack(items, first, math.min(first + 999, #items))) end
end
