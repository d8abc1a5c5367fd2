#!lua flags=allow-oom
-- What is kept of one person goes: these sessions, which are over, and at last what is theirs alone. Whoever has signed
-- in again since is left as they are, and answered.
-- include: time
-- include: record
-- include: facets
-- include: ending
-- KEYS: 1-13 Shard.lists 14-17 Shard.of_user 18 words 19 labels 20 block 21 blocks, then a record for each session id
-- ARGV: 1 uid 2 1 at last: the person, too|0 3 number of entries of words E 4 number of entries of addresses A 5 number of
--       label ids L 6… the E entries, the A entries, the L ids (each goes unless a live session has it), the session ids
-- returns: {sessions that went, 1 if a block went, live sessions of this person}
local k, keys = shard_keys()
local uid, first = ARGV[1], 6
local user = user_keys(uid, keys + 1)
local words, labels, block, blocks = unpack(KEYS, keys + 5, keys + 8)
local bad = foreign_shard(k) or foreign('SCARD', user.live, 'ZCARD', words, 'ZCARD', k.addresses, 'HLEN', labels,
                                        'HLEN', block, 'ZCARD', blocks, 'ZCARD', user.ended, 'HLEN', user.person)
if bad then return bad end
local function part(n)
  local out = {unpack(ARGV, first, first + n - 1)}
  first = first + n
  return out
end
local terms, addresses, ids = part(tonumber(ARGV[3])), part(tonumber(ARGV[4])), part(tonumber(ARGV[5]))

-- Nothing below can fail.
local gone, held = 0, 0
for i = 0, #ARGV - first do
  local ref, record = uid .. ':' .. ARGV[first + i], KEYS[keys + 9 + i]
  if not redis.call('ZSCORE', k.sessions, ref) then
    gone = gone + math.max(redis.call('UNLINK', record), redis.call('ZREM', k.ended, ref))
    redis.call('ZREM', k.deadlines, ref)
    redis.call('ZREM', user.ended, ref)
    redis.call('HDEL', k.closing, ref)
    redis.pcall('SREM', k.counted, ref)
    redis.pcall('SREM', user.live, ARGV[first + i])
    redis.pcall('HDEL', user.devices, ARGV[first + i])
  end
end
local live = redis.call('SCARD', user.live)
if live == 0 then
  for _, entry in ipairs(terms) do redis.call('ZREM', words, entry) end
end
for _, entry in ipairs(addresses) do
  if not redis.call('ZSCORE', k.sessions, string.sub(entry, string.byte(entry) == 52 and 6 or 18)) then
    redis.call('ZREM', k.addresses, entry)
  end
end
for _, id in ipairs(ids) do
  if redis.call('HEXISTS', k.facets, 'c' .. id) == 0 and redis.call('HEXISTS', k.facets, 'a' .. id) == 0 then
    redis.call('HDEL', labels, id)
  end
end
if ARGV[2] == '1' and live == 0 then
  redis.call('ZREM', k.users, uid)
  redis.call('ZREM', k.people, uid)
  held = redis.call('ZREM', blocks, uid)
  redis.call('UNLINK', user.live, user.person, user.devices, user.ended, block)
end
return {gone, held, live}
