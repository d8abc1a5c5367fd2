#!lua flags=no-writes
-- One shard's part of a page: newest login first, from just behind a position. Finding the position costs O(log N) at
-- any depth: by rank when its member is still there, else by two counts and a binary search among equal login times.
-- include: time
-- KEYS: 1 sessions 2 deadlines
-- ARGV: 1 now|'' 2 how many 3 position's login ms|'' 4 position's ref
-- returns: {now, live sessions, {ref, login ms, …}}
local now, want, sessions = clock(ARGV[1]), tonumber(ARGV[2]), KEYS[1]

local function bytes_less(a, b) -- Lua's own < obeys the server's locale
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x < y end
  end
  return #a < #b
end

local start = 0
if ARGV[3] ~= '' then
  local login, ref = ARGV[3], ARGV[4]
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

return {now, redis.call('ZCOUNT', KEYS[2], '(' .. ms(now), '+inf'),
        redis.call('ZREVRANGE', sessions, start, start + want - 1, 'WITHSCORES')}
