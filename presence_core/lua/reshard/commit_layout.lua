#!lua flags=allow-oom
-- Makes the new number of shards the layout, for the coordinator that has frozen every shard and for no other. Or
-- revokes that coordinator's right to do so, so that a call of its own that arrives late changes nothing.
-- KEYS: 1 layout
-- ARGV: 1 token 2 number of shards before 3 number of shards after|'' (it stays: the token is void from now on)
-- returns: 1, or 0: another coordinator has begun since; or, where the number is to stay, it has changed
local layout = KEYS[1]
local token, before, after = unpack(ARGV)
local void = token .. ' void'
local holder, shards, was, sealed = unpack(redis.call('HMGET', layout, 'token', 'shards', 'was', 'sealed'))
if sealed == token and shards == after then return 1 end -- sent again, because its reply was lost
if shards ~= before then return 0 end
if holder ~= token and (holder ~= void or after ~= '') then return 0 end
if after == '' then
  redis.call('HSET', layout, 'token', void)
  return 1
end
local time = redis.call('TIME')
redis.call('HSET', layout, 'shards', after, 'was', was and was ~= '' and was .. ',' .. before or before, 'from', before,
           'step', 'open', 'sealed', token, 'indexes', '',
           'moved_at', string.format('%d%03d', time[1], math.floor(time[2] / 1000)))
redis.call('HDEL', layout, 'begun', 'copy', 'servers')
return 1
