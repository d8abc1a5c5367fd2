-- A page of a list by last seen, from the bottom up: who is seen meanwhile moves ahead of the reader, never behind. Answers
-- {member, score, …} and the score that the next page begins with, '' after the last.
local function climb(key, low, high, limit)
  local flat = redis.call('ZRANGE', key, low, high, 'BYSCORE', 'LIMIT', 0, limit, 'WITHSCORES')
  return flat, #flat < 2 * tonumber(limit) and '' or flat[#flat]
end
