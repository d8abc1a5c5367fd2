#!lua flags=allow-oom
-- Puts live sessions into the indexes and, once each, into the counters that a recount has begun.
-- include: record
-- include: facets
-- KEYS: 1 sessions 2 words 3 addresses 4 recount 5 counted, then a record for each ref
-- ARGV: 1 index addresses 0|1 2 declare facets anew 0|1, then for each ref: ref, name, aliases, attributes as they were
--       read, declared attributes (facets.lua), number of entries, entries
-- returns: how many entries and counts were missing
redis.call('ZCARD', KEYS[2])
redis.call('ZCARD', KEYS[3])
redis.call('HLEN', KEYS[4])
redis.call('SCARD', KEYS[5])
local missing, at = 0, 3
for i = 6, #KEYS do
  local ref, entries = ARGV[at], tonumber(ARGV[at + 5])
  local row = redis.pcall('HMGET', KEYS[i], 's', 'c', 'e', 'n', 'a', 'C', 'A', 'f', 'x')
  if redis.call('ZSCORE', KEYS[1], ref) then
    if sound(row[1], row[2]) and not row[3] then
      local same = (row[4] or '') == ARGV[at + 1] and (row[5] or '') == ARGV[at + 2] -- else a login has renamed it since
      for e = at + 6, at + 5 + (same and entries or 0) do missing = missing + redis.call('ZADD', KEYS[2], 0, ARGV[e]) end
      local address = ARGV[1] == '1' and indexed_address(row[2])
      if address then missing = missing + redis.call('ZADD', KEYS[3], 0, address .. ref) end
      if redis.call('EXISTS', KEYS[4]) == 1 and redis.call('SADD', KEYS[5], ref) == 1 then
        if ARGV[2] == '1' and (row[9] or '') == ARGV[at + 3] and (row[8] or '') ~= ARGV[at + 4] then
          row[8] = declared(KEYS[4], ARGV[at + 4])
          if row[8] == '' then redis.call('HDEL', KEYS[i], 'f') else redis.call('HSET', KEYS[i], 'f', row[8]) end
        end
        local sums = {}
        add_facets(sums, row, 1)
        change_facets(KEYS[4], sums)
      end
    elseif redis.call('EXISTS', KEYS[4]) == 1 then
      redis.call('SADD', KEYS[5], ref) -- no record: tidy.lua takes it out again with the rest
    end
  end
  at = at + 6 + entries
end
return missing
