#!lua
-- Change attributes of a live session; the others stay. Its facets follow.
-- include: sessions/session_state
-- include: sessions/same_digest
-- include: sessions/confirmed_clock
-- include: sessions/attributes
-- include: facets
-- KEYS: 1 sessions 2 closing 3 meta 4 facets 5 recount 6 counted 7 record
-- ARGV: 1 now|'' 2 uid 3 sid 4 digest of the secret|'' (by id) 5 bytes of all attributes, at most 6 declared attributes
--       among those given (facets.lua) 7… for each attribute: name, name as JSON, value as JSON|'' (removed)
-- returns: {state, row, how}, as sessions/validate.lua; {'too long'}: all attributes together, so nothing was changed
local sessions, closing, meta, facets, recount, counted, record = unpack(KEYS)
local now, uid, sid, digest, most_bytes, given = clock(ARGV[1]), unpack(ARGV, 2, 6)
local ref = uid .. ':' .. sid

local state, row, how = state_of(now, sessions, closing, meta, ref, record)
local core = row[2]
if not core then return {state} end
if state == UNKNOWN or (digest ~= '' and not same_digest(core, digest)) then return {UNKNOWN} end
if state ~= LIVE then
  local is_overdue = state == ENDED and not how and not row[11]
  if is_overdue and clock_is_confirmed(now, meta) then return {state, row, {}, 1} end
  return {state, row, how or {}}
end

if row[10] then return {SIGN_IN_REQUIRED, row, {}} end

local changes, is_given = {}, {}
for i = 7, #ARGV, 3 do
  changes[#changes + 1], changes[#changes + 2] = ARGV[i + 1], ARGV[i + 2]
  is_given[ARGV[i]] = true
end
local before = row[6] or ''
local merged = merge_attributes(before, changes)
if #merged > #before and #merged > tonumber(most_bytes) then return {'too long'} end

-- The declared attributes that are not given stay. `sums`: what changes in the counters.
local declared, sums = {}, {}
for member in string.gmatch(redis.call('HGET', record, 'f') or '', '[^\n]+') do
  if is_given[string.match(member, '^%Z*')] then
    sums['x' .. member] = -1
  else
    declared[#declared + 1] = member
  end
end
for member in string.gmatch(declared_members(facets, given), '[^\n]+') do
  declared[#declared + 1] = member
  sums['x' .. member] = (sums['x' .. member] or 0) + 1
end

local function write(field, text)
  if text == '' then redis.call('HDEL', record, field) else redis.call('HSET', record, field, text) end
end
write('x', merged)
write('f', table.concat(declared, '\n'))
change_facets(facets, sums)
if redis.call('HGET', meta, 'recount') and redis.pcall('SISMEMBER', counted, ref) == 1 then
  change_facets(recount, sums)
end
row[6] = merged ~= '' and merged
return {state, row, now}
