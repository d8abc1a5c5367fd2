#!lua flags=no-writes
-- What began and ended on this shard, oldest first, behind a position in its stream.
-- KEYS: 1 events
-- ARGV: 1 position|'' (from the oldest that is kept) 2 how many
-- returns: {gap 0|1, last id of the stream, {id, {field, value, …}, …}}
--   gap: entries behind the position are gone, to the cap or with the stream
local after, want = ARGV[1], ARGV[2]
if redis.call('EXISTS', KEYS[1]) == 0 then
  return {(after == '' or after == '0-0') and 0 or 1, '0-0', {}}
end
local about = {}
local info = redis.call('XINFO', 'STREAM', KEYS[1])
for i = 1, #info, 2 do about[info[i]] = info[i + 1] end
local function parts(id)
  local time, order = string.match(id, '^(%d+)%-(%d+)$')
  return tonumber(time), tonumber(order)
end
local function older(a, b)
  local t1, n1 = parts(a)
  local t2, n2 = parts(b)
  return t1 < t2 or (t1 == t2 and n1 < n2)
end
local last, first, gap = about['last-generated-id'], about['first-entry'], 0
if after ~= '' then
  local dropped = tonumber(about['entries-added']) > tonumber(about['length'])
  if older(last, after) then -- another stream than the one that was read
    gap, after = 1, ''
  elseif first and older(after, first[1]) and (dropped or after ~= '0-0') then -- or older than this stream itself
    gap = 1
  end
end
local out = {}
if want == '0' then return {gap, last, out} end
for _, entry in ipairs(redis.call('XRANGE', KEYS[1], after == '' and '-' or '(' .. after, '+', 'COUNT', want)) do
  out[#out + 1] = entry[1]
  out[#out + 1] = entry[2]
end
return {gap, last, out}
