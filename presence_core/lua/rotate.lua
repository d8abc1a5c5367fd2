#!lua flags=allow-oom
-- A new secret for the same session; from here on the old one opens nothing.
-- include: time
-- include: record
-- KEYS: 1 sessions 2 closing 3 meta 4 record
-- ARGV: 1 now|'' 2 uid 3 sid 4 digest of the old secret 5 digest of the new one
-- returns: {state, row}: LIVE when the secret was changed
local ref = ARGV[2] .. ':' .. ARGV[3]
local state, row = state_of(clock(ARGV[1]), KEYS[1], KEYS[2], KEYS[3], ref, KEYS[4])
local core = row[2]
-- Lua keeps each text once, so it compares where they lie and not their bytes: the time tells nothing.
if not core or string.sub(core, 17, 32) ~= ARGV[4] then return {UNKNOWN} end
if state == LIVE then
  row[2] = string.sub(core, 1, 16) .. ARGV[5] .. string.sub(core, 33)
  redis.call('HSET', KEYS[4], 'c', row[2])
end
return {state, row}
