#!lua
-- Saves or removes an item in a list of saved items; a change of a shared list has an audit entry.
-- include: clock
-- include: key_types
-- include: staff/audit_entry
-- include: staff/audit_facts
-- KEYS: 1 saved 2 audit
-- ARGV: 1 now|'' 2 audit cap 3 kind 4 owner|'' for a shared list 5 name 6 save|remove 7 text 8 by 9 former name|''
--   10 how many items a list may have 11 how many bytes 12 how many lists there may be
-- returns: {1: done; 0: there was none to remove; -1: too many items; -2: too many bytes; -3: too many lists, time ms}
-- A list is JSON: {name: {"text": …, "by": …, "at": "ms"}}. Its field is "kind\nowner".
local saved, audit = unpack(KEYS)
local given_now, audit_cap, kind, owner, name, action, text, by, former, most, bytes, lists = unpack(ARGV, 1, ARGS)
local now = ms(clock(given_now))
local bad = foreign('HLEN', saved, 'XLEN', audit)
if bad then return bad end

local field = kind .. '\n' .. owner
local stored = redis.call('HGET', saved, field)
local readable, items = pcall(cjson.decode, stored or '{}')
if not readable or type(items) ~= 'table' then items = {} end -- damaged: it reads as empty
local old = items[name]
if action == 'remove' and not old then return {0, now} end
if not stored and redis.call('HLEN', saved) >= tonumber(lists) then return {-3, now} end

if former ~= '' then items[former] = nil end
items[name] = action == 'save' and {text = text, by = by, at = now} or nil
local count = 0
for _ in pairs(items) do count = count + 1 end
if action == 'save' and count > tonumber(most) then return {-1, now} end
local record = cjson.encode(items)
if action == 'save' and #record > tonumber(bytes) then return {-2, now} end

-- Nothing below can fail.
if count == 0 then redis.call('HDEL', saved, field) else redis.call('HSET', saved, field, record) end
if owner == '' then
  local renamed = former ~= '' and former ~= name
  local code = action ~= 'save' and 'item_removed' or renamed and 'item_renamed' or 'item_saved'
  write_audit_entry(audit, audit_cap, now, by, 'shared_item', {}, 'facts',
                    write_facts({code, 'kind', kind, 'name', name, 'former', renamed and former}))
end
return {1, now}
