#!lua flags=allow-oom
-- The other number of shards is the layout from here on: said by the mover that froze every shard, and by no other.
-- KEYS: 1 layout
-- ARGV: 1 token 2 shards as they were 3 shards as they are to be|'' (they stay: what this mover said and comes late is void)
-- returns: 1, or 0: another mover has begun since, or where they are to stay: they have changed
local row, void = redis.call('HMGET', KEYS[1], 'token', 'shards', 'was', 'sealed'), ARGV[1] .. ' void'
if row[4] == ARGV[1] and row[2] == ARGV[3] then return 1 end -- sent again since its reply was lost
if row[2] ~= ARGV[2] or (row[1] ~= ARGV[1] and (row[1] ~= void or ARGV[3] ~= '')) then return 0 end
if ARGV[3] == '' then
  redis.call('HSET', KEYS[1], 'token', void)
  return 1
end
local was = row[3] and row[3] ~= '' and (row[3] .. ',' .. ARGV[2]) or ARGV[2]
local at = redis.call('TIME')
redis.call('HSET', KEYS[1], 'shards', ARGV[3], 'was', was, 'from', ARGV[2], 'step', 'open', 'sealed', ARGV[1], 'indexes', '',
           'moved_at', string.format('%d%03d', at[1], math.floor(at[2] / 1000)))
redis.call('HDEL', KEYS[1], 'begun', 'copy', 'servers')
return 1
