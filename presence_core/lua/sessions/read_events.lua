#!lua flags=no-writes
-- Read the sessions that began and ended on this shard, oldest first, behind a position in its stream.
-- KEYS: 1 events
-- ARGV: 1 position|'' (from the oldest that is kept) 2 how many
-- returns: {gap 0|1, last id of the stream, {id, {field, value, …}, …}}
--   gap: entries behind the position are gone, by the cap or with the stream
-- A position is the id of an entry; or a time in ms and, where an id has its number, LAST_OF_MS.
local LAST_OF_MS = '18446744073709551615'
local stream, after, limit = KEYS[1], ARGV[1], ARGV[2]
if redis.call('EXISTS', stream) == 0 then
  return {(after == '' or after == '0-0') and 0 or 1, '0-0', {}}
end
local info, flat = {}, redis.call('XINFO', 'STREAM', stream)
for i = 1, #flat, 2 do info[flat[i]] = flat[i + 1] end
local function parts(id)
  local time, order = string.match(id, '^(%d+)%-(%d+)$')
  return tonumber(time), tonumber(order)
end
local function is_older(a, b)
  local t1, n1 = parts(a)
  local t2, n2 = parts(b)
  return t1 < t2 or (t1 == t2 and n1 < n2)
end
local last, first, gap = info['last-generated-id'], info['first-entry'], 0
-- A snapshot was restored that does not have the position's entry. Later entries have later ids: ids are times. The
-- entry may also have been removed with a person who was erased.
local function is_unknown(id)
  if id == last or id == '0-0' or string.match(id, '%d+$') == LAST_OF_MS then return false end
  return #redis.call('XRANGE', stream, id, id) == 0 and is_older(info['max-deleted-entry-id'] or '0-0', id)
end
if after ~= '' then
  local is_trimmed = tonumber(info['entries-added']) > tonumber(info['length'])
  if first and is_older(after, first[1]) then -- older than this stream
    gap = (is_trimmed or after ~= '0-0') and 1 or 0
  elseif is_older(last, after) or is_unknown(after) then -- the position is of another stream
    gap, after = 1, ''
  end
end
local entries = {}
if limit == '0' then return {gap, last, entries} end
for _, entry in ipairs(redis.call('XRANGE', stream, after == '' and '-' or '(' .. after, '+', 'COUNT', limit)) do
  entries[#entries + 1], entries[#entries + 2] = entry[1], entry[2]
end
return {gap, last, entries}
