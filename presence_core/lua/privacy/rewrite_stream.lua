#!lua
-- Rewrites a stream without one person: entries are removed or changed, under the ids that they have. XDEL would only
-- mark them, and keep their bytes until every entry of the same node is gone. So the stream is copied, a part a call.
-- The last call puts the copy in the stream's place, in the same step in which it sees that no entry was added behind
-- the copy.
-- include: sessions/end_session
-- KEYS: 1 stream 2 copy 3 meta
-- ARGV: 1 how often streams of this shard had been rewritten when this began|'' 2 copy entries behind this id|'' 3 up
--       to this one 4 1 if it seemed to be the last|0 5 seconds after which an unfinished copy expires 6… for each
--       entry to be changed: id, number of words (0: it is removed), field, value, …
-- The copy's max-deleted-entry-id is the last entry that was removed: a reader of events that stopped there has missed
-- nothing (sessions/read_events.lua).
-- returns: 1: copied, and the last call has replaced the stream; 0: copied, entries were added; -1: begin again:
--          another process was first, or the copy has expired
local stream, copy, meta = unpack(KEYS)
local rewritten_before, after, upto, seemed_last, keep_copy = unpack(ARGV)
local bad = foreign('XLEN', stream, 'HLEN', meta)
if bad then return bad end
if (redis.call('HGET', meta, 'retold') or '') ~= rewritten_before then
  redis.call('UNLINK', copy)
  return -1
end
if after == '' then
  redis.call('UNLINK', copy)
  redis.call('XDEL', copy, redis.call('XADD', copy, '0-1', '-', '-')) -- an empty stream, in case every entry is removed
elseif redis.call('EXISTS', copy) == 0 then
  return -1
end
local changes, at = {}, 6
while at < #ARGV do
  local id, words = ARGV[at], tonumber(ARGV[at + 1])
  changes[id] = {unpack(ARGV, at + 2, at + 1 + words)}
  at = at + 2 + words
end
local last_removed
for _, entry in ipairs(redis.call('XRANGE', stream, after == '' and '-' or '(' .. after, upto)) do
  local fields = changes[entry[1]] or entry[2]
  if #fields > 0 then redis.call('XADD', copy, entry[1], unpack(fields)) else last_removed = entry[1] end
end
local function info_of(key)
  local info, flat = {}, redis.call('XINFO', 'STREAM', key)
  for i = 1, #flat, 2 do info[flat[i]] = flat[i + 1] end
  return info
end
local function set_ids(last, added, removed)
  redis.call('XSETID', copy, last, 'ENTRIESADDED', math.max(tonumber(added or 0), redis.call('XLEN', copy)),
             'MAXDELETEDID', removed)
end
if last_removed then set_ids(upto, 0, last_removed) end
redis.call('EXPIRE', copy, keep_copy)
if seemed_last == '0' then return 1 end
if redis.call('EXISTS', stream) == 0 then return 0 end
if #redis.call('XRANGE', stream, '(' .. upto, '+', 'COUNT', 1) > 0 then return 0 end
local info, removed = info_of(stream), info_of(copy)['max-deleted-entry-id']
if removed == '0-1' then removed = info['max-deleted-entry-id'] end -- of this time none, only the entry that began it
set_ids(info['last-generated-id'], info['entries-added'], removed)
redis.call('PERSIST', copy)
redis.call('RENAME', copy, stream)
redis.call('HINCRBY', meta, 'retold', 1)
return 1
