#!lua
-- R5: which friends were seen within a time. Copies that part of the list, intersects the copy with the friends, reads,
-- and deletes the copy or lets other calls share it for a while. Where there are fewer friends than the copy would have
-- members, and it is not shared, the friends are looked up in the list itself.
-- include: trackers/clock_seconds
-- KEYS: 1 last seen 2 friends (SET or ZSET) 3 the copy (ZSET)
-- ARGV: 1 now|'' 2 within, seconds 3 seconds that the copy may be shared|0
-- returns: {friend, score, …}
local list, friends, copy = KEYS[1], KEYS[2], KEYS[3]
local now, within, share = clock_seconds(ARGV[1]), ARGV[2], tonumber(ARGV[3])
local low, high = now - within, now
local kind = redis.call('TYPE', friends).ok
if kind == 'none' then return {} end
if kind ~= 'set' and kind ~= 'zset' then
  return redis.error_reply('WRONGTYPE ' .. friends .. ' holds neither a SET nor a ZSET')
end
local number = redis.call(kind == 'set' and 'SCARD' or 'ZCARD', friends)
local source = copy
if share == 0 and number <= redis.call('ZCOUNT', list, score(low), score(high)) then
  source = list
elseif share == 0 or redis.call('EXISTS', copy) == 0 then
  redis.call('ZRANGESTORE', copy, list, score(low), score(high), 'BYSCORE')
  if share > 0 then redis.call('EXPIRE', copy, share) end
end
-- Scores are read again: those of the friends would spoil a sum, infinite ones even with a weight of 0.
local found, out = redis.call('ZINTER', 2, source, friends), {}
for first = 1, #found, 1000 do
  local last = math.min(first + 999, #found)
  for i, seen in ipairs(redis.call('ZMSCORE', source, unpack(found, first, last))) do
    if source == copy or (tonumber(seen) >= low and tonumber(seen) <= high) then
      out[#out + 1], out[#out + 2] = found[first + i - 1], seen
    end
  end
end
if source == copy and share == 0 then redis.call('UNLINK', copy) end
return out
