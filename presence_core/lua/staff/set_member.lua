#!lua flags=allow-oom
-- Writes the record of one staff member, with an audit entry. Removing a member deletes their own saved items.
-- include: clock
-- include: sessions/end_session
-- include: staff/audit_entry
-- include: staff/audit_facts
-- KEYS: 1 staff 2 audit 3 saved
-- ARGV: 1 now|'' 2 audit cap 3 name 4 role|'removed' 5 by 6 set|add|seed|force 7 how many records there may be
--   8… the kinds of saved items
--   add: only where the name has no role. seed: only where the name has no record. force: also where no admin would be
--   left
-- returns: {1: written; 0: it was so already; -1: the last admin; -2: too many records; -3: to add, but has a role, the
--   record as it is now|''}
-- A record: "role\nsince, ms\nby".
local staff, audit, saved = unpack(KEYS)
local given_now, audit_cap, name, role, by, mode, most = unpack(ARGV, 1, ARGS)
local now = clock(given_now)
local bad = foreign('HLEN', staff, 'XLEN', audit, 'HLEN', saved)
if bad then return bad end
local function role_of(record)
  local known, since = string.match(record or '', '^(%l+)\n(%d+)\n')
  return known and #since <= 14 and known -- StaffMember.from_reply reads no other
end
local function has_other_admin()
  local records = redis.call('HGETALL', staff)
  for i = 1, #records, 2 do
    if records[i] ~= name and role_of(records[i + 1]) == 'admin' then return true end
  end
end

local old_record = redis.call('HGET', staff, name)
local old_role = role_of(old_record)
if mode == 'add' and old_role and old_role ~= 'removed' then return {-3, old_record} end
if old_record and (mode == 'seed' or old_role == role) then return {0, old_record} end
if not old_record and role == 'removed' then return {0, ''} end
if not old_record and redis.call('HLEN', staff) >= tonumber(most) then return {-2, ''} end
if old_role == 'admin' and mode ~= 'force' and not has_other_admin() then return {-1, old_record} end

-- Nothing below can fail.
local record = table.concat({role, ms(now), by}, '\n')
local before = old_role ~= 'removed' and old_role
local code = role == 'removed' and (before and 'role_taken' or 'role_removed')
  or before and 'role_changed' or 'role_given'
redis.call('HSET', staff, name, record)
if role == 'removed' then
  for i = ARGS + 1, #ARGV do redis.call('HDEL', saved, ARGV[i] .. '\n' .. name) end
end
local glass = mode == 'force' and {'glass_broken'} or nil
write_audit_entry(audit, audit_cap, ms(now), by, 'staff', {}, 'facts',
                  write_facts({code, 'name', name, 'role', role, 'before', before}, glass))
return {1, record}
