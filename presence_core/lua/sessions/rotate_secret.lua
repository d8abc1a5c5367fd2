#!lua flags=allow-oom
-- Give a session a new secret; the old one is no longer valid.
-- include: sessions/session_state
-- include: sessions/same_digest
-- include: sessions/confirmed_clock
-- KEYS: 1 sessions 2 closing 3 meta 4 record
-- ARGV: 1 now|'' 2 uid 3 sid 4 digest of the old secret 5 digest of the new one
-- returns: {state, row}: LIVE when the secret was changed; with 1 behind them: see sessions/validate.lua
local sessions, closing, meta, record = unpack(KEYS)
local now, uid, sid, old_digest, new_digest = clock(ARGV[1]), unpack(ARGV, 2)
local state, row, how = state_of(now, sessions, closing, meta, uid .. ':' .. sid, record)
local core = row[2]
if not core or not same_digest(core, old_digest) then return {UNKNOWN} end
if state == LIVE then
  row[2] = string.sub(core, 1, 16) .. new_digest .. string.sub(core, 33)
  redis.call('HSET', record, 'c', row[2])
end
local is_overdue = state == ENDED and not how and not row[9]
if is_overdue and clock_is_confirmed(now, meta) then return {state, row, 1} end
return {state, row}
