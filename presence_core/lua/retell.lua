#!lua
-- A stream is told anew without a person: entries go, or are put in other words, under the ids that they have. XDEL would
-- only mark them, and leave their bytes until the last entry beside them is gone. A part at a time is copied; the last
-- one puts the copy in the stream's place, in the same step in which it is seen that nothing came behind it.
-- include: ending
-- KEYS: 1 stream 2 copy 3 meta
-- ARGV: 1 how often streams of this shard were told anew when this was begun|'' 2 copy what is behind this id|'' 3 up to
--       this one 4 1 if it seemed to be the last|0 5 seconds that a copy is kept which nobody goes on with
--       6… for each entry to be changed: id, number of words (0: it goes), field, value, …
-- returns: 1 copied, and if it was the last in its place; 0 copied, more has come; -1 begin again: somebody else was done
--          before, or the copy has run out
local stream, copy, meta = KEYS[1], KEYS[2], KEYS[3]
local bad = foreign('XLEN', stream, 'HLEN', meta)
if bad then return bad end
if (redis.call('HGET', meta, 'retold') or '') ~= ARGV[1] then
  redis.call('UNLINK', copy)
  return -1
end
if ARGV[2] == '' then
  redis.call('UNLINK', copy)
  redis.call('XDEL', copy, redis.call('XADD', copy, '0-1', '-', '-')) -- it is there, also if all entries go
elseif redis.call('EXISTS', copy) == 0 then
  return -1
end
local changes, at = {}, 6
while at < #ARGV do
  local n = tonumber(ARGV[at + 1])
  changes[ARGV[at]] = {unpack(ARGV, at + 2, at + 1 + n)}
  at = at + 2 + n
end
for _, entry in ipairs(redis.call('XRANGE', stream, ARGV[2] == '' and '-' or '(' .. ARGV[2], ARGV[3])) do
  local fields = changes[entry[1]] or entry[2]
  if #fields > 0 then redis.call('XADD', copy, entry[1], unpack(fields)) end
end
redis.call('EXPIRE', copy, ARGV[5])
if ARGV[4] == '0' then return 1 end
if redis.call('EXISTS', stream) == 0 or #redis.call('XRANGE', stream, '(' .. ARGV[3], '+', 'COUNT', 1) > 0 then return 0 end
local about = {}
local info = redis.call('XINFO', 'STREAM', stream)
for i = 1, #info, 2 do about[info[i]] = info[i + 1] end
local added = math.max(tonumber(about['entries-added'] or 0), redis.call('XLEN', copy))
redis.call('XSETID', copy, about['last-generated-id'], 'ENTRIESADDED', added, 'MAXDELETEDID',
           about['max-deleted-entry-id'] or '0-0')
redis.call('PERSIST', copy)
redis.call('RENAME', copy, stream)
redis.call('HINCRBY', meta, 'retold', 1)
return 1
