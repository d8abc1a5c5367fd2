-- Read a key that the script derives, and so does not declare. While its slot moves to another node, Redis refuses to
-- read a key that has moved, which must not look like a key that is missing: the script ends, and the client tries
-- again.
local function read_derived(...)
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err and string.find(reply.err, 'non local key', 1, true) then error(reply) end
  return reply
end
