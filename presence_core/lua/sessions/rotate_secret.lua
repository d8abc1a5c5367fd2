#!lua flags=allow-oom
-- Give a session a new secret; the old one is no longer valid, or not for long. Where its visitor has authenticated
-- again, note that in the same step: no former secret is valid then, and a new sign-in that staff required is done,
-- unless it was required after they began to sign in.
-- include: sessions/session_state
-- include: tokens/same_digest
-- include: sessions/confirmed_clock
-- include: sessions/authentication
-- KEYS: 1 sessions 2 closing 3 meta 4 record 5 events 6 rotated (of a rotate with a grace), STRING: how many callers
--       came with a former secret (1 byte), the nonce of the present secret, that of the one before while it is needed
-- ARGV: 1 now|'' 2 uid 3 sid 4 digest of the old secret|'' (by id: the secret stays) 5 digest of the new one
--       6 methods|'' (no new authentication), as the field h has them behind the time 7 when they authenticated, ms|''
--       (now) 8 when they began to sign in, ms|'' (now) 9 most events 10 a failover may have lost it 0|1
--       11 grace, ms 12 nonce of the new secret, 16 bytes|'' (no grace)
-- returns: {state, row}: LIVE when it was changed; {state, row, 1} and {OLD_SECRET}: see sessions/validate.lua;
--          {LIVE, row, 0, number, nonces} where the old secret is a former one: the present secret follows from it by
--          the nonces, in this order, and the caller has this number among those that came with a former secret
local sessions, closing, meta, record, events, rotated = unpack(KEYS)
local given_now, uid, sid, old_digest, new_digest, methods, given_at, began, max_events, is_again, grace, nonce =
  unpack(ARGV, 1, ARGS)
local now = clock(given_now)
local ref = uid .. ':' .. sid
local state, row, how = state_of(now, sessions, closing, meta, ref, record)
local core = row[R.core]
if not core then return {state} end
local former
if old_digest ~= '' and not same_digest(core, 17, old_digest) then
-- include: tokens/former_secrets
  local refused
  former, refused = find_former(now, state, record, row, old_digest)
  if not former then return refused end
end
if state == LIVE and row[R.demand] and methods == '' and is_again == '0' then return {SIGN_IN_REQUIRED, row} end

if state == LIVE and former and methods == '' then -- another caller has rotated it, a moment ago
  local made = rotated and redis.call('GET', rotated)
  if not made or #made < 1 + 16 * former then return {UNKNOWN} end
  local number = math.min(string.byte(made) + 1, 255)
  redis.call('SET', rotated, string.char(number) .. string.sub(made, 2), 'KEEPTTL')
  return {LIVE, row, 0, number, (former == 2 and string.sub(made, 18, 33) or '') .. string.sub(made, 2, 17)}
end

if state == LIVE then
  redis.call('XLEN', events)
  if nonce ~= '' and methods == '' then
    local valid_until = now + tonumber(grace)
    local secrets = string.sub(new_digest, 1, 8) .. string.sub(core, 17, 32) .. struct.pack('>I8', valid_until)
    local before, made = redis.call('HGET', record, 'p') or '', redis.call('GET', rotated) or ''
    if #before >= 32 and string.sub(before, 1, 8) == string.sub(core, 17, 24) then
      secrets, nonce = secrets .. string.sub(before, 9, 32), nonce .. string.sub(made, 2, 17)
      valid_until = math.max(valid_until, (struct.unpack('>I8', before, 25)))
    end
    redis.call('SET', rotated, '\0' .. nonce, 'PX', ms(valid_until - now))
    redis.call('HSET', record, 'p', secrets)
  elseif methods ~= '' then
    redis.call('HDEL', record, 'p')
  end
  if old_digest ~= '' then
    row[R.core] = string.sub(core, 1, 16) .. new_digest .. string.sub(core, 33)
    redis.call('HSET', record, 'c', row[R.core])
  end
  local at = given_at == '' and now or tonumber(given_at)
  if methods ~= '' and not (is_again == '1' and at < authenticated_at(core, row[R.authentication])) then
    row[R.authentication] = pack_authentication(at, methods)
    redis.call('HSET', record, 'h', row[R.authentication])
  end
  local demand = row[R.demand]
  if methods ~= '' and demand and demanded_at(demand) < (began == '' and math.huge or tonumber(began)) then
    redis.call('HDEL', record, 'q')
    redis.call('XADD', events, 'MAXLEN', '~', max_events, '*', 'k', 'reauthenticated', 'r', ref, 'a', ms(now))
    row[R.demand] = false
  end
end
local is_overdue = state == ENDED and not how and not row[R.end_reason]
if is_overdue and clock_is_confirmed(now, meta) then return {state, row, 1} end
return {state, row}
