#!lua flags=no-writes
-- Why these users may not log in, if so.
-- include: time
-- include: ending
-- include: hold
-- KEYS: a block for each user
-- ARGV: 1 now|'' 2 strict|lenient (what is not ours is an error; or no block)
-- returns: for each {0 none | 1 blocked | 2 a block whose time is over, the hold}
local now, out = clock(ARGV[1]), {}
for i, key in ipairs(KEYS) do
  local row = redis.pcall('HMGET', key, unpack(HOLD))
  if row.err then
    local bad = ARGV[2] == 'strict' and foreign('HLEN', key)
    if bad then return bad end
    row = {}
  end
  out[i] = row[6] and {is_held(now, row[6]) and 1 or 2, row} or {0, {}}
end
return out
