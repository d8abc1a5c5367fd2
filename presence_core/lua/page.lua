#!lua flags=no-writes
-- One shard's part of a page: newest login first, from just behind a position. Finding the position costs O(log N) at
-- any depth: by rank when its member is still there, else by two counts and a binary search among equal login times.
-- include: time
-- include: record
-- include: labels
-- KEYS: 1 sessions 2 deadlines 3 closing 4 labels (records are derived from the prefix: this only reads)
-- ARGV: 1 now|'' 2 prefix of record keys 3 how many 4 position's login ms|'' 5 position's ref
-- returns: {now, live sessions, {ref, login ms, row, …}, {label id, text, …}, {refs found dirty}, last login ms, last ref,
--           entries looked at}; last ref is '' at the end of the list
local now, prefix, want = clock(ARGV[1]), ARGV[2], tonumber(ARGV[3])
local sessions = KEYS[1]

local function bytes_less(a, b) -- Lua's own < obeys the server's locale
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x < y end
  end
  return #a < #b
end

local start = 0
if ARGV[5] ~= '' then
  local login, ref = ARGV[4], ARGV[5]
  local score = redis.call('ZSCORE', sessions, ref)
  if score and tonumber(score) == tonumber(login) then
    start = redis.call('ZREVRANK', sessions, ref) + 1
  else
    local low, high = redis.call('ZCOUNT', sessions, '(' .. login, '+inf'), redis.call('ZCOUNT', sessions, login, '+inf')
    while low < high do
      local middle = math.floor((low + high) / 2)
      if bytes_less(redis.call('ZREVRANGE', sessions, middle, middle)[1], ref) then high = middle else low = middle + 1 end
    end
    start = low
  end
end

local rows, dirty, found, scanned, budget = {}, {}, 0, 0, math.max(1000, 2 * want)
local last_login, last_ref, more = '', '', true
while more and found < want and scanned < budget do
  local size = want - found
  local chunk = redis.call('ZREVRANGE', sessions, start, start + size - 1, 'WITHSCORES')
  more = #chunk == 2 * size
  start = start + size
  for i = 1, #chunk, 2 do
    local ref = chunk[i]
    local row = redis.pcall('HMGET', prefix .. ref, 's', 'c', 'n', 'a', 'i', 'x', 'C', 'A', 'e')
    local core = row[2]
    scanned = scanned + 1
    last_ref, last_login = ref, chunk[i + 1]
    if sound(row[1], core) and not row[9] and now < deadline_of(tonumber(row[1]), core)
       and tonumber(last_login) == login_of(core) then
      note_labels(core)
      found = found + 1
      rows[3 * found - 2], rows[3 * found - 1], rows[3 * found] = ref, last_login, row
    else
      dirty[#dirty + 1] = ref
    end
  end
end
return {now, redis.call('ZCOUNT', KEYS[2], '(' .. ms(now), '+inf'), rows, label_texts(KEYS[4]), dirty,
        last_login, more and last_ref or '', scanned}
