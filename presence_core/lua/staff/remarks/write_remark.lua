#!lua
-- Adds or removes a remark of staff on a person. Remarks of the person that have lapsed are removed first. The audit
-- has an entry without the text, which lapses.
-- include: clock
-- include: key_types
-- include: staff/audit_entry
-- KEYS: 1 remarks of the person 2 remarked 3 audit
-- ARGV: 1 now|'' 2 audit cap 3 uid 4 id of the remark 5 text|'' to remove it 6 by 7 seconds that it is kept
--   8 how many remarks a person may have 9 how many people of a shard may have remarks
-- returns: {1: done; 0: there was none to remove; -1: the person has too many; -2: too many people have some, time ms}
-- A remark is JSON: {"text": …, "by": …, "at": "ms", "until": "ms"}. `remarked` has when the last of a person lapses.
local remarks, remarked, audit = unpack(KEYS)
local given_now, audit_cap, uid, id, text, by, keep, most, people = unpack(ARGV, 1, ARGS)
local now = clock(given_now)
local bad = foreign('HLEN', remarks, 'ZCARD', remarked, 'XLEN', audit)
if bad then return bad end
local until_ms = now + tonumber(keep) * 1000

local stored, lapsed, count, last, is_there = redis.call('HGETALL', remarks), {}, 0, 0, false
for i = 1, #stored, 2 do
  local readable, remark = pcall(cjson.decode, stored[i + 1])
  local its_end = readable and type(remark) == 'table' and tonumber(remark['until']) or 0
  if its_end <= now then
    lapsed[#lapsed + 1] = stored[i]
  elseif stored[i] == id then
    is_there = true
  else
    count, last = count + 1, math.max(last, its_end)
  end
end
if text == '' and not is_there then return {0, ms(now)} end
if text ~= '' and count >= tonumber(most) then return {-1, ms(now)} end
local over = redis.call('ZRANGE', remarked, '-inf', ms(now), 'BYSCORE', 'LIMIT', 0, 100)
if text ~= '' and not redis.call('ZSCORE', remarked, uid)
   and redis.call('ZCARD', remarked) - #over >= tonumber(people) then
  return {-2, ms(now)}
end

-- Nothing below can fail.
if #lapsed > 0 then redis.call('HDEL', remarks, unpack(lapsed)) end
if #over > 0 then redis.call('ZREM', remarked, unpack(over)) end
if text == '' then
  redis.call('HDEL', remarks, id)
else
  last = math.max(last, until_ms)
  redis.call('HSET', remarks, id, cjson.encode({text = text, by = by, at = ms(now), ['until'] = ms(until_ms)}))
end
if last == 0 then
  redis.call('ZREM', remarked, uid)
else
  redis.call('ZADD', remarked, ms(last), uid)
  redis.call('PEXPIREAT', remarks, ms(last))
end
write_audit_entry(audit, audit_cap, ms(now), by, text == '' and 'remove_remark' or 'add_remark', {uid = uid})
return {1, ms(now)}
