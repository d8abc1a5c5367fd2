#!lua flags=allow-oom
-- Staff block a user, or a client sets a block again that a failover has undone. See include/staff/block_record.lua for
-- a user who is blocked already.
-- include: clock
-- include: sessions/end_session
-- include: staff/audit_entry
-- include: staff/block_record
-- KEYS: 1 block 2 blocks 3 audit
-- ARGV: 1 now|'' 2 policy 3 uid 4 by 5 reason 6 message|'' 7 tickets|'', one a line 8 end: seconds|'=' and ms|'' (none)
--       9 merge|shorten|again 10 at, ms 11 changed, ms (10 and 11 for `again`: as the block was read)
-- returns: the block as it is now; or 0, and nothing is done: that end is in the past, or (again) the block is still
--          there, or staff have changed or removed it since
local block, blocks, audit = unpack(KEYS)
local given_now, packed_policy, uid, by, reason, message, tickets, given_end, mode, given_at, given_changed =
  unpack(ARGV, 1, ARGS)
local now, policy, again = clock(given_now), read_policy(packed_policy), mode == 'again'
local bad = foreign('HLEN', block, 'ZCARD', blocks, 'XLEN', audit)
if bad then return bad end
local at = again and given_at or ms(now)
local changed = again and given_changed or at
local wanted = {by = by, reason = reason, message = message, ticket = tickets, at = at, changed = changed,
                ['until'] = block_end(now, given_end)}
if end_of(wanted['until']) <= now then return 0 end
if again and (changed_since(block, now, changed) or audited_since(audit, uid, changed)) then return 0 end

-- Nothing below can fail.
local row, details = write_block(policy, block, blocks, uid, now, wanted, mode == 'shorten')
if again then
  details[#details + 1], details[#details + 2] = 'again', '1'
end
write_audit_entry(audit, policy.audit, row[#row], by, 'block',
                  {uid = uid, reason = reason, message = message, ticket = tickets}, unpack(details))
return row
