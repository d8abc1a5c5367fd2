#!lua flags=no-writes
-- The blocks of these users.
-- include: clock
-- include: sessions/end_session
-- include: staff/block_record
-- KEYS: a block for each user
-- ARGV: 1 now|'' 2 strict|lenient (another program's value is an error; or no block)
-- returns: for each user {0: no block; 1: blocked; 2: a block whose end is in the past, the block}
local now, strict, blocks = clock(ARGV[1]), ARGV[2] == 'strict', {}
for i, key in ipairs(KEYS) do
  local row = redis.pcall('HMGET', key, unpack(BLOCK_FIELDS))
  if row.err then
    local bad = strict and foreign('HLEN', key)
    if bad then return bad end
    row = {}
  end
  local ends = row[BLOCK_UNTIL]
  blocks[i] = ends and {is_blocked(now, ends) and 1 or 2, row} or {0, {}}
end
return blocks
