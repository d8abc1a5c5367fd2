#!lua flags=allow-oom
-- Removes what is stored of one person: these ended sessions, and with the last call everything that is the person's
-- alone. A person who has logged in again keeps the live sessions, and the reply says so.
-- include: clock
-- include: sessions/session_record
-- include: facets
-- include: sessions/end_session
-- KEYS: 1-13 Shard.lists 14-17 Shard.of_user 18 words 19 labels 20 block 21 blocks 22 sessions on behalf of users
--       23 failed 24 failures of the user 25… all other keys of the person, then a record for each session id
-- ARGV: 1 uid 2 1: the last call|0 3 number of entries of words 4 number of entries of addresses 5 number of label ids
--       6… the entries of words, the entries of addresses, the label ids (removed unless a live session has one), the
--       session ids
-- returns: {sessions that were removed, 1 if a block was removed, live sessions of this person}
local k, keys = shard_keys()
local uid, last_call, words_given, addresses_given, labels_given = unpack(ARGV, 1, ARGS)
local user = user_keys(uid, keys + 1)
local words, labels, block, blocks, on_behalf, failed, failures = unpack(KEYS, keys + 5, keys + 11)
local bad = foreign_shard(k) or foreign('SCARD', user.live, 'ZCARD', words, 'ZCARD', k.addresses, 'HLEN', labels,
                                        'HLEN', block, 'ZCARD', blocks, 'ZCARD', user.ended, 'HLEN', user.person,
                                        'ZCARD', failed)
if bad then return bad end
local next_arg = ARGS + 1
local function take(given)
  local first = next_arg
  next_arg = first + tonumber(given)
  return {unpack(ARGV, first, next_arg - 1)}
end
local words_entries, address_entries, label_ids = take(words_given), take(addresses_given), take(labels_given)
local first_record = #KEYS - (#ARGV - next_arg)

-- Nothing below can fail.
local sessions, blocks_removed = 0, 0
for i = 0, #ARGV - next_arg do
  local sid, record = ARGV[next_arg + i], KEYS[first_record + i]
  local ref = uid .. ':' .. sid
  if not redis.call('ZSCORE', k.sessions, ref) then
    sessions = sessions + math.max(redis.call('UNLINK', record), redis.call('ZREM', k.ended, ref))
    redis.call('ZREM', k.deadlines, ref)
    redis.call('ZREM', user.ended, ref)
    redis.call('HDEL', k.closing, ref)
    redis.pcall('ZREM', on_behalf, ref)
    redis.pcall('SREM', k.counted, ref)
    redis.pcall('SREM', user.live, sid)
    redis.pcall('HDEL', user.devices, sid)
  end
end
local live = redis.call('SCARD', user.live)
if live == 0 then
  for _, entry in ipairs(words_entries) do redis.call('ZREM', words, entry) end
end
for _, entry in ipairs(address_entries) do
  local ref = string.sub(entry, string.byte(entry) == 52 and 6 or 18) -- behind "4" or "6" and the packed address
  if not redis.call('ZSCORE', k.sessions, ref) then redis.call('ZREM', k.addresses, entry) end
end
for _, id in ipairs(label_ids) do
  if redis.call('HEXISTS', k.facets, 'c' .. id) == 0 and redis.call('HEXISTS', k.facets, 'a' .. id) == 0 then
    redis.call('HDEL', labels, id)
  end
end
if last_call == '1' and live == 0 then
  redis.call('ZREM', k.users, uid)
  redis.call('ZREM', k.people, uid)
  blocks_removed = redis.call('ZREM', blocks, uid)
  local noted = redis.pcall('HKEYS', failures) -- also what has failed since this erasure began
  for _, name in ipairs(noted.err and {} or noted) do redis.call('ZREM', failed, uid .. ':' .. name) end
  redis.call('UNLINK', user.live, user.person, user.devices, user.ended, block, failures,
             unpack(KEYS, keys + 12, first_record - 1))
end
return {sessions, blocks_removed, live}
