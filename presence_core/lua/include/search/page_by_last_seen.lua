-- A page of a list by last seen, lowest first: a member who is seen meanwhile moves ahead of the reader, never behind.
-- Returns {member, score, …} and the score at which the next page begins, '' after the last.
local function page_by_last_seen(list, low, high, limit)
  local flat = redis.call('ZRANGE', list, low, high, 'BYSCORE', 'LIMIT', 0, limit, 'WITHSCORES')
  return flat, #flat < 2 * tonumber(limit) and '' or flat[#flat]
end
