#!lua flags=allow-oom
-- Staff let a user log in again. The audit has an entry also where the user was not blocked.
-- include: clock
-- include: sessions/end_session
-- include: staff/audit_entry
-- include: staff/block_record
-- KEYS: 1 block 2 blocks 3 audit
-- ARGV: 1 now|'' 2 policy 3 uid 4 by 5 reason
-- returns: 1: the user was blocked; 0: the user was not
local block, blocks, audit = unpack(KEYS)
local given_now, packed_policy, uid, by, reason = unpack(ARGV)
local now, policy = clock(given_now), read_policy(packed_policy)
local bad = foreign('HLEN', block, 'ZCARD', blocks, 'XLEN', audit)
if bad then return bad end
local record = read_block(now, block)
local was_blocked = record and 1 or 0

-- Nothing below can fail.
redis.call('UNLINK', block)
redis.call('ZREM', blocks, uid)
write_audit_entry(audit, policy.audit, not_before(record, ms(now)), by, 'unblock', {uid = uid, reason = reason},
                  'was', was_blocked)
return was_blocked
