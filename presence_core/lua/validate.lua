#!lua flags=allow-oom
-- May this request pass? And, when asked, note that the session was seen.
-- include: time
-- include: record
-- include: vouched
-- KEYS: 1 sessions 2 deadlines 3 users 4 closing 5 meta 6 record
-- ARGV: 1 now|'' 2 uid 3 sid 4 digest of the secret|'' (asked by id) 5 touch 0|1 6 packed address|''
-- returns: {state, row, how}, and 1 behind them if it is past its deadline by a clock that is in order, so that its end is
--          to be written; another's secret is answered like a session that never was
local now, uid, ref, digest, ip = clock(ARGV[1]), ARGV[2], ARGV[2] .. ':' .. ARGV[3], ARGV[4], ARGV[6]

-- Equal, in time that does not depend on where the two digests differ.
local function same(core)
  local a1, a2, a3, a4 = struct.unpack('>I4I4I4I4', core, 17)
  local b1, b2, b3, b4 = struct.unpack('>I4I4I4I4', digest)
  return bit.bor(bit.bxor(a1, b1), bit.bxor(a2, b2), bit.bxor(a3, b3), bit.bxor(a4, b4)) == 0
end

local state, row, how = state_of(now, KEYS[1], KEYS[4], KEYS[5], ref, KEYS[6])
local core = row[2]
if not core then return {state} end
if state == UNKNOWN or (digest ~= '' and not same(core)) then return {UNKNOWN} end

if state == LIVE and ARGV[5] == '1' and not FROZEN then
  local seen = tonumber(row[1])
  if now > seen then
    redis.call('ZADD', KEYS[2], 'XX', 'GT', deadline_of(now, core), ref)
    redis.pcall('ZADD', KEYS[3], 'XX', 'GT', now, uid) -- only readers want it: no reason to turn a visitor away
    row[1] = string.format('%.0f', now)
    redis.call('HSET', KEYS[6], 's', row[1])
  end
  if ip ~= '' and ip ~= (row[5] or string.sub(core, 41)) then
    redis.call('HSET', KEYS[6], 'i', ip)
    row[5] = ip
  end
end
if state == ENDED and not how and not row[9] and not FROZEN and vouched(now, KEYS[5]) then return {state, row, {}, 1} end
return {state, row, how or {}}
