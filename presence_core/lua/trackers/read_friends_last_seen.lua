#!lua
-- R5: which friends were seen from so long ago until now. Copies the part of the list that counts, intersects the copy
-- with the friends, reads, and deletes the copy or leaves it to others for a while. Where the friends are fewer than
-- such a copy would hold, and nobody shares it, they are looked up in the list itself.
-- include: seconds
-- KEYS: 1 last seen 2 friends (SET or ZSET) 3 the copy (ZSET)
-- ARGV: 1 now|'' 2 within 3 seconds that the copy may be shared|0
-- returns: {friend, score, …}
local list, friends, copy, share = KEYS[1], KEYS[2], KEYS[3], tonumber(ARGV[3])
local now = instant_of(ARGV[1])
local low, high = now - ARGV[2], now
local kind = redis.call('TYPE', friends).ok
if kind == 'none' then return {} end
if kind ~= 'set' and kind ~= 'zset' then
  return redis.error_reply('WRONGTYPE ' .. friends .. ' holds neither a SET nor a ZSET')
end
local many = redis.call(kind == 'set' and 'SCARD' or 'ZCARD', friends)
local source = copy
if share == 0 and many <= redis.call('ZCOUNT', list, score(low), score(high)) then
  source = list
elseif share == 0 or redis.call('EXISTS', copy) == 0 then
  redis.call('ZRANGESTORE', copy, list, score(low), score(high), 'BYSCORE')
  if share > 0 then redis.call('EXPIRE', copy, share) end
end
-- Their scores are read anew: a friend's own (since when) would spoil a sum, infinite ones even with a weight of 0.
local found, out = redis.call('ZINTER', 2, source, friends), {}
for first = 1, #found, 1000 do
  local last = math.min(first + 999, #found)
  for i, seen in ipairs(redis.call('ZMSCORE', source, unpack(found, first, last))) do
    if source == copy or (tonumber(seen) >= low and tonumber(seen) <= high) then
      out[#out + 1] = found[first + i - 1]
      out[#out + 1] = seen
    end
  end
end
if source == copy and share == 0 then redis.call('UNLINK', copy) end
return out
