#!lua flags=allow-oom
-- Removes the failed sign-ins of one person, or of one name: their rows and what the list has of them.
-- include: key_types
-- KEYS: 1 failed|failed_names 2 the rows
-- ARGV: 1 uid, or the name of a text (failures/note_failure.lua) 2… entries of the list whose rows may be gone
-- returns: how many entries of the list were removed
local failed, rows = unpack(KEYS)
local who = ARGV[1]
local bad = foreign('ZCARD', failed)
if bad then return bad end
local names, removed = redis.pcall('HKEYS', rows), 0
for _, name in ipairs(names.err and {} or names) do
  removed = removed + redis.call('ZREM', failed, who .. ':' .. name)
end
for i = 2, #ARGV do removed = removed + redis.call('ZREM', failed, ARGV[i]) end
redis.call('UNLINK', rows)
return removed
