#!lua flags=no-writes
-- The block rules of one shard.
-- include: clock
-- KEYS: 1 block_rules 2 meta
-- ARGV: 1 now|''
-- returns: {now, version|false, {field, rule as JSON, …}}
local block_rules, meta = unpack(KEYS)
return {clock(ARGV[1]), redis.call('HGET', meta, 'rules_version'), redis.call('HGETALL', block_rules)}
