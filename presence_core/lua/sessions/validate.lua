#!lua flags=allow-oom
-- May this request pass? And, when asked, note that the session was seen.
-- include: sessions/session_state
-- include: tokens/same_digest
-- include: sessions/move_address
-- include: sessions/on_behalf
-- include: sessions/confirmed_clock
-- KEYS: 1 sessions 2 deadlines 3 users 4 closing 5 meta 6 record 7 addresses (or none: they are not indexed)
-- ARGV: 1 now|'' 2 uid 3 sid 4 digest of the secret|'' (validated by id) 5 touch 0|1 6 packed address|''
--       7 ms|'': refuse an older authentication
-- returns: {LIVE, row, now}; {state, row, how} for others, and 1 behind them where the session is past its
--          deadline by a confirmed clock, so that its end is to be written; {UNKNOWN} for a wrong secret, as for a
--          session that never was; {OLD_SECRET} for a former one whose use sessions/note_old_secret.lua is to note
local sessions, deadlines, users, closing, meta, record, addresses = unpack(KEYS)
local now, uid, sid, digest, touch, ip = clock(ARGV[1]), ARGV[2], ARGV[3], ARGV[4], ARGV[5] == '1', ARGV[6]
local max_age = ARGV[7]
local ref = uid .. ':' .. sid

local state, row, how = state_of(now, sessions, closing, meta, ref, record)
local core = row[R.core]
if not core then return {state} end
if state == UNKNOWN then return {UNKNOWN} end
if digest ~= '' and not same_digest(core, 17, digest) then
-- include: tokens/former_secrets
  local former, refused = find_former(now, state, record, row, digest)
  if not former then return refused end
end

-- A request that is refused does not count as seen. Staff who act on behalf of the user never pass for a fresh
-- authentication of theirs.
if state == LIVE and row[R.demand] then return {SIGN_IN_REQUIRED, row, {}} end
if state == LIVE and max_age ~= '' then
  local authentication = row[R.authentication]
  local authenticated = struct.unpack('>I8', authentication and #authentication >= 8 and authentication or core)
  if is_on_behalf(sid) or now - authenticated > tonumber(max_age) then return {AUTHENTICATION_TOO_OLD, row, {}} end
end
if state == LIVE and touch and not FENCE_STATE then
-- check commands
  local seen = tonumber(row[R.seen])
  if now > seen then
    redis.call('ZADD', deadlines, 'XX', 'GT', deadline_of(now, core), ref)
    if not is_on_behalf(sid) then
      redis.pcall('ZADD', users, 'XX', 'GT', now, uid) -- only readers use it: no reason to turn a visitor away
    end
    row[R.seen] = ms(now)
    redis.call('HSET', record, 's', row[R.seen])
  end
  if ip ~= '' and ip ~= (row[R.last_ip] or string.sub(core, 41)) then
    local at_login, before = string.sub(core, 41), row[R.last_ip] or string.sub(core, 41)
    row[R.last_ip] = ip ~= at_login and ip
    if row[R.last_ip] then redis.call('HSET', record, 'i', ip) else redis.call('HDEL', record, 'i') end
    if addresses then move_address(addresses, ref, at_login, before, ip) end
  end
end
if state == LIVE then return {state, row, now} end
local is_overdue = state == ENDED and not how and not row[R.end_reason]
if is_overdue and not FENCE_STATE and clock_is_confirmed(now, meta) then return {state, row, {}, 1} end
return {state, row, how or {}}
