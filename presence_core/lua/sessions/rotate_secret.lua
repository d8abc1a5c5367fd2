#!lua flags=allow-oom
-- Give a session a new secret; the old one is no longer valid. Where its visitor has authenticated again, note that in
-- the same step: a new sign-in that staff required is then done, unless it was required after they began to sign in.
-- include: sessions/session_state
-- include: sessions/same_digest
-- include: sessions/confirmed_clock
-- include: sessions/authentication
-- KEYS: 1 sessions 2 closing 3 meta 4 record 5 events
-- ARGV: 1 now|'' 2 uid 3 sid 4 digest of the old secret|'' (by id: the secret stays) 5 digest of the new one
--       6 methods|'' (no new authentication), as the field h has them behind the time 7 when they authenticated, ms|''
--       (now) 8 when they began to sign in, ms|'' (now) 9 most events 10 a failover may have lost it 0|1
-- returns: {state, row}: LIVE when it was changed; with 1 behind them: see sessions/validate.lua
local sessions, closing, meta, record, events = unpack(KEYS)
local now, uid, sid, old_digest, new_digest, methods, given_at, began, max_events, is_again =
  clock(ARGV[1]), unpack(ARGV, 2)
local ref = uid .. ':' .. sid
local state, row, how = state_of(now, sessions, closing, meta, ref, record)
local core = row[2]
if not core then return {state} end
if old_digest ~= '' and not same_digest(core, old_digest) then return {UNKNOWN} end
if state == LIVE and row[10] and methods == '' and is_again == '0' then return {SIGN_IN_REQUIRED, row} end
if state == LIVE then
  redis.call('XLEN', events)
  if old_digest ~= '' then
    row[2] = string.sub(core, 1, 16) .. new_digest .. string.sub(core, 33)
    redis.call('HSET', record, 'c', row[2])
  end
  local at = given_at == '' and now or tonumber(given_at)
  if methods ~= '' and not (is_again == '1' and at < authenticated_at(core, row[9])) then
    row[9] = pack_authentication(at, methods)
    redis.call('HSET', record, 'h', row[9])
  end
  if methods ~= '' and row[10] and demanded_at(row[10]) < (began == '' and math.huge or tonumber(began)) then
    redis.call('HDEL', record, 'q')
    redis.call('XADD', events, 'MAXLEN', '~', max_events, '*', 'k', 'reauthenticated', 'r', ref, 'a', ms(now))
    row[10] = false
  end
end
local is_overdue = state == ENDED and not how and not row[11]
if is_overdue and clock_is_confirmed(now, meta) then return {state, row, 1} end
return {state, row}
