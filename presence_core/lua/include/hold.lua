-- A hold on a user's logins, in every script that writes or judges one. Types are checked before; nothing fails.
-- The HASH: HOLD below; tickets are one a line, at and until are ms ('' for no end), changed is when it was last changed.
-- Whether it still holds is judged by `until`; the TTL only clears away, a minute later, and is left off where keys with
-- a TTL may be evicted (record_ttl=False).
local HOLD = {'by', 'reason', 'message', 'ticket', 'at', 'until', 'changed'}
local MOST_TICKETS = 10

-- Given the value of `until`. One that is no number is '' or not ours: on the safe side, it has no end.
local function end_of(ends) return tonumber(ends) or math.huge end
local function is_held(now, ends) return ends and now < end_of(ends) end

-- When a change comes that is made now, ms: never before the one that it changes, though a failover led to a slower clock.
local function after(hold, given) return hold and tonumber(hold.changed) > tonumber(given) and hold.changed or given end

-- What is given for an end, as `until` says it: '' for none, seconds from now on, or '=' and a time, ms.
local function held_until(now, given)
  if given == '' then return '' end
  if string.sub(given, 1, 1) == '=' then return string.sub(given, 2) end
  return ms(now + tonumber(given) * 1000)
end

-- The hold that there is, or nil.
local function read_hold(now, block)
  local row, hold = redis.call('HMGET', block, unpack(HOLD)), {}
  if not is_held(now, row[6]) then return nil end
  for i, field in ipairs(HOLD) do hold[field] = row[i] or '' end
  local at, changed, ends = tonumber(hold.at) or -1, tonumber(hold.changed) or -1, end_of(hold['until'])
  if not (at >= 0 and at < 1e15) then hold.at = ms(now) end -- not ours, and it becomes a score
  if not (changed >= 0 and changed < 1e15) then hold.changed = hold.at end
  hold['until'] = ends < 1e15 and ms(ends) or ''
  return hold
end

-- The tickets of both, the newest last. Beyond ten the oldest go: the audit has them.
local function join_tickets(old, new)
  local all, has = {}, {}
  for ticket in string.gmatch(old .. '\n' .. new, '[^\n]+') do
    if not has[ticket] then all[#all + 1] = ticket end
    has[ticket] = true
  end
  return table.concat(all, '\n', math.max(1, #all - MOST_TICKETS + 1))
end

-- Block a user. What there was is not made weaker, unless it is to be shortened: of two holds the one that ends later
-- stays, of equals the newer, with the tickets of both. Merging a hold again changes nothing.
-- Answers the hold as it is now, and how the audit entry goes on.
local function write_hold(policy, block, blocks, uid, now, asked, shorten)
  local old, hold = read_hold(now, block), {}
  local kept = old and not shorten and end_of(old['until']) > end_of(asked['until'])
  for field, value in pairs(kept and old or asked) do hold[field] = value end
  hold.changed = after(old, asked.changed)
  if old then hold.ticket = join_tickets(old.ticket, asked.ticket) end
  local fields, row = {}, {}
  for i, field in ipairs(HOLD) do
    row[i] = hold[field]
    fields[2 * i - 1], fields[2 * i] = field, hold[field]
  end
  redis.call('UNLINK', block)
  redis.call('HSET', block, unpack(fields))
  if policy.ttl and hold['until'] ~= '' then redis.call('PEXPIREAT', block, ms(tonumber(hold['until']) + 60000)) end
  redis.call('ZADD', blocks, hold.at, uid)

  local function said(ends) return ends == '' and 'ever' or ends end
  local entry = {'until', said(hold['until'])}
  if old then
    for field, value in pairs({was_until = said(old['until']), was_by = old.by, was_ticket = old.ticket,
                               tickets = hold.ticket, asked = kept and said(asked['until']) or ''}) do
      if value ~= '' then
        entry[#entry + 1] = field
        entry[#entry + 1] = value
      end
    end
  end
  return row, entry
end
