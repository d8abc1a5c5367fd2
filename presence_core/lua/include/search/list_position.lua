-- The rank of the first entry behind a position, in a list by score that is read newest first. O(log N) at any depth:
-- by rank where the member is still there, else by two counts and a binary search among equal scores.
local function bytes_less(a, b) -- Lua's own < depends on the server's locale
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x < y end
  end
  return #a < #b
end

local function rank_behind(list, score, member)
  local found = redis.call('ZSCORE', list, member)
  if found and tonumber(found) == tonumber(score) then return redis.call('ZREVRANK', list, member) + 1 end
  local low, high = redis.call('ZCOUNT', list, '(' .. score, '+inf'), redis.call('ZCOUNT', list, score, '+inf')
  while low < high do
    local middle = math.floor((low + high) / 2)
    if bytes_less(redis.call('ZREVRANGE', list, middle, middle)[1], member) then high = middle else low = middle + 1 end
  end
  return low
end
