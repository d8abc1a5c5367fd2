#!lua flags=no-writes
-- What a sweep has to do: sessions past their deadline, those that a sign-everybody-out left, and ends whose tombstone a
-- crash left unwritten.
-- include: time
-- KEYS: 1 deadlines 2 closing 3 sessions 4 meta
-- ARGV: 1 now|'' 2 how many at most of each
-- returns: {now, {refs}}
local now = clock(ARGV[1])
local refs = redis.call('ZRANGE', KEYS[1], '-inf', ms(now), 'BYSCORE', 'LIMIT', 0, ARGV[2])
local revoked = redis.call('HGET', KEYS[4], 'revoked')
if revoked then
  for _, ref in ipairs(redis.call('ZRANGE', KEYS[3], '-inf', revoked, 'BYSCORE', 'LIMIT', 0, ARGV[2])) do
    refs[#refs + 1] = ref
  end
end
for _, ref in ipairs(redis.call('HRANDFIELD', KEYS[2], ARGV[2])) do refs[#refs + 1] = ref end
return {now, refs}
