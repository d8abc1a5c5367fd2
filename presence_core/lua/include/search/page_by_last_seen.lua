-- include: search/list_position

-- A page of a list by last seen, lowest first: a member who is seen meanwhile moves ahead of the reader, never behind.
-- It begins at `score` and `member`, or at `low` where they are ''. Returns {member, score, …}, and the last of them as
-- the score and member at which the next page begins: '' and '' after the last page.
local function page_by_last_seen(list, low, high, limit, score, member)
  local first = score == '' and redis.call('ZCOUNT', list, '-inf', '(' .. low) or
                redis.call('ZCARD', list) - rank_behind(list, score, member)
  local stop, most = redis.call('ZCOUNT', list, '-inf', high), first + tonumber(limit)
  local flat = first < stop and redis.call('ZRANGE', list, first, math.min(stop, most) - 1, 'WITHSCORES') or {}
  if stop <= most then return flat, '', '' end
  return flat, flat[#flat], flat[#flat - 1]
end
