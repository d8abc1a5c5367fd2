#!lua flags=allow-oom
-- Replace all block rules of one shard. On the first shard this is a change by staff: it is made only if no other
-- change came since its base was read. On the others it is a copy: it is made only if the shard's version is older.
-- include: clock
-- include: key_types
-- include: staff/audit_entry
-- KEYS: 1 block_rules 2 meta 3 audit
-- ARGV: 1 now|'' 2 policy's audit cap 3 version 4 base version|'' (a copy) 5 lookup: see include/staff/block_rules.lua
--       6 action|'' (no audit entry) 7 by 8 reason 9 message 10 ticket 11 facts, JSON 12… field, rule as JSON, …
-- returns: 1: stored; 0: nothing was done
local block_rules, meta, audit = unpack(KEYS)
local given_now, audit_cap, version, base, lookup, action, by, reason, message, ticket, facts = unpack(ARGV, 1, ARGS)
local bad = foreign('HLEN', block_rules, 'HLEN', meta, 'XLEN', audit)
if bad then return bad end
local stored = tonumber(redis.call('HGET', meta, 'rules_version') or 0) or 0
if base ~= '' and stored ~= tonumber(base) then return 0 end
if base == '' and stored >= tonumber(version) then return 0 end

-- Nothing below can fail.
redis.call('UNLINK', block_rules)
if #ARGV > ARGS then redis.call('HSET', block_rules, unpack(ARGV, ARGS + 1)) end
redis.call('HSET', meta, 'rules_version', version)
if lookup == '' then redis.call('HDEL', meta, 'rules') else redis.call('HSET', meta, 'rules', lookup) end
if action ~= '' then
  write_audit_entry(audit, audit_cap, ms(clock(given_now)), by, action,
                    {reason = reason, message = message, ticket = ticket}, 'facts', facts)
end
return 1
