#!lua flags=no-writes
-- Reads the remarks on some people; of a key of a foreign type none.
-- include: clock
-- KEYS: the remarks of each, at most 100
-- ARGV: 1 now|''
-- returns: {now, {id, remark, id, …} of each}
local found = {}
for i = 1, #KEYS do
  local stored = redis.pcall('HGETALL', KEYS[i])
  found[i] = stored.err and {} or stored
end
return {ms(clock(ARGV[1])), found}
