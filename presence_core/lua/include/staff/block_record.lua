-- The record of a block: a user may not log in. For every script that writes or reads one. The script has checked the
-- types of the keys; nothing here fails. The HASH has BLOCK_FIELDS: tickets are one a line, at and until are ms ('' for
-- no end), changed is the time of the last change. `until` alone decides whether the user is blocked. The TTL only
-- removes the record, a minute later; it is left off where servers may evict keys with a TTL (record_ttl=False).
-- include: clock
-- include: given_fields
-- include: staff/block_end
local BLOCK_FIELDS = {'by', 'reason', 'message', 'ticket', 'at', 'until', 'changed'}
local BLOCK_UNTIL = 6 -- the place of `until`
local MAX_TICKETS = 10

-- The time of a change, ms: never before the change that it follows, though a failover led to a slower clock.
local function not_before(record, at)
  return record and tonumber(record.changed) > tonumber(at) and record.changed or at
end

-- A given end as `until` holds it: '' for none; given are seconds from now, or '=' and a time, ms.
local function block_end(now, given)
  if given == '' then return '' end
  if string.sub(given, 1, 1) == '=' then return string.sub(given, 2) end
  return ms(now + tonumber(given) * 1000)
end

-- The record of a user who is blocked now, or nil.
local function read_block(now, block)
  local row, record = redis.call('HMGET', block, unpack(BLOCK_FIELDS)), {}
  if not is_blocked(now, row[BLOCK_UNTIL]) then return nil end
  for i, field in ipairs(BLOCK_FIELDS) do record[field] = row[i] or '' end
  local at, changed, ends = tonumber(record.at) or -1, tonumber(record.changed) or -1, end_of(record['until'])
  if not (at >= 0 and at < 1e15) then record.at = ms(now) end -- another program's, and it becomes a score
  if not (changed >= 0 and changed < 1e15) then record.changed = record.at end
  record['until'] = ends < 1e15 and ms(ends) or ''
  return record
end

-- Whether the user is blocked by a change that is not older than `changed`.
local function changed_since(block, now, changed)
  local record = read_block(now, block)
  return record and tonumber(record.changed) >= tonumber(changed)
end

-- Whether the audit has a change of the user's block at or after `changed`: a block and its entry are one write.
local function audited_since(audit, uid, changed)
  for _, entry in ipairs(redis.call('XREVRANGE', audit, '+', '-', 'COUNT', 1000)) do
    local fields = {}
    for i = 1, #entry[2], 2 do fields[entry[2][i]] = entry[2][i + 1] end
    local blocks = fields.what == 'block' or fields.what == 'unblock' or (fields.what == 'kick' and fields['until'])
    if fields.uid == uid and blocks and (tonumber(fields.at) or 0) >= tonumber(changed) then return true end
  end
end

-- The tickets of both, the newest last. Beyond MAX_TICKETS the oldest are dropped: the audit has them.
local function join_tickets(old, new)
  local all, has = {}, {}
  for ticket in string.gmatch(old .. '\n' .. new, '[^\n]+') do
    if not has[ticket] then all[#all + 1] = ticket end
    has[ticket] = true
  end
  return table.concat(all, '\n', math.max(1, #all - MAX_TICKETS + 1))
end

-- The further fields of the audit entry on a block: {name, value, …}. `old`: the block before, or nil.
local function block_audit_fields(old, record, refused_end)
  local function end_text(ends) return ends == '' and 'ever' or ends end
  local fields = {'until', end_text(record['until'])}
  if not old then return fields end
  return add_given(fields, {was_until = end_text(old['until']), was_by = old.by, was_ticket = old.ticket,
                            tickets = record.ticket, asked = refused_end and end_text(refused_end)})
end

-- Block a user. A block that exists is made no weaker, unless `shorten`: of two blocks the one that ends later stays,
-- of equal ones the newer, with the tickets of both. Merging a block again changes nothing. Returns the record as
-- BLOCK_FIELDS has it, and the further fields of the audit entry.
local function write_block(policy, block, blocks, uid, now, wanted, shorten)
  local old, record = read_block(now, block), {}
  local kept = old and not shorten and end_of(old['until']) > end_of(wanted['until'])
  for field, value in pairs(kept and old or wanted) do record[field] = value end
  record.changed = not_before(old, wanted.changed)
  if old then record.ticket = join_tickets(old.ticket, wanted.ticket) end
  local fields, row = {}, {}
  for i, field in ipairs(BLOCK_FIELDS) do
    row[i] = record[field]
    fields[2 * i - 1], fields[2 * i] = field, record[field]
  end
  redis.call('UNLINK', block)
  redis.call('HSET', block, unpack(fields))
  if policy.ttl and record['until'] ~= '' then redis.call('PEXPIREAT', block, ms(tonumber(record['until']) + 60000)) end
  redis.call('ZADD', blocks, record.at, uid)
  return row, block_audit_fields(old, record, kept and wanted['until'])
end
