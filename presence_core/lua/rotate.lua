#!lua flags=allow-oom
-- A new secret for the same session; from here on the old one opens nothing.
-- include: time
-- include: record
-- include: vouched
-- KEYS: 1 sessions 2 closing 3 meta 4 record
-- ARGV: 1 now|'' 2 uid 3 sid 4 digest of the old secret 5 digest of the new one
-- returns: {state, row}: LIVE when the secret was changed; with 1 behind them: see validate.lua
local ref = ARGV[2] .. ':' .. ARGV[3]
local now = clock(ARGV[1])
local state, row, how = state_of(now, KEYS[1], KEYS[2], KEYS[3], ref, KEYS[4])
local core = row[2]
-- Lua keeps each text once, so it compares where they lie and not their bytes: the time tells nothing.
if not core or string.sub(core, 17, 32) ~= ARGV[4] then return {UNKNOWN} end
if state == LIVE then
  row[2] = string.sub(core, 1, 16) .. ARGV[5] .. string.sub(core, 33)
  redis.call('HSET', KEYS[4], 'c', row[2])
end
if state == ENDED and not how and not row[9] and vouched(now, KEYS[3]) then return {state, row, 1} end
return {state, row}
