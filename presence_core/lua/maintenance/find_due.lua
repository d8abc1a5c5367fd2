#!lua flags=no-writes
-- The sessions that a sweep settles: those past their deadline, those from before a revocation, and ends whose
-- tombstone a crash left unwritten.
-- include: clock
-- KEYS: 1 deadlines 2 closing 3 sessions 4 meta
-- ARGV: 1 now|'' 2 how many of each kind, at most
-- returns: {now, {refs}}
local deadlines, closing, sessions, meta = unpack(KEYS)
local given_now, limit = unpack(ARGV)
local now = clock(given_now)
local refs = redis.call('ZRANGE', deadlines, '-inf', ms(now), 'BYSCORE', 'LIMIT', 0, limit)
local function add(found)
  for _, ref in ipairs(found) do refs[#refs + 1] = ref end
end
local revoked = redis.call('HGET', meta, 'revoked')
if revoked then add(redis.call('ZRANGE', sessions, '-inf', revoked, 'BYSCORE', 'LIMIT', 0, limit)) end
add(redis.call('HRANDFIELD', closing, limit))
return {now, refs}
