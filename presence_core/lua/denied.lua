#!lua flags=allow-oom
-- A member of staff tried what their role does not allow. Counted by who, what and hour, so that a flood leaves a
-- handful of rows: past 200 in one hour all further ones share a row; past 1,000 in all the oldest hour goes.
-- include: time
-- include: ending
-- KEYS: 1 denied
-- ARGV: 1 now|'' 2 by 3 what 4 uid|'' 5 reason|'' 6 seconds to keep
-- returns: how often this row has been counted
-- A row: "hour\nwhat\nby" → "count\nfirst ms\nlast ms\nuid\nreason". Only the reason may hold a line break.
local now, table_key, keep = clock(ARGV[1]), KEYS[1], tonumber(ARGV[6])
local bad = foreign('HLEN', table_key)
if bad then return bad end
local hour = math.floor(now / 3600000)
local function row_of(what, by) return string.format('%d\n%s\n%s', hour, what, by) end

local row, gone = row_of(ARGV[3], ARGV[2]), {}
local old = redis.call('HGET', table_key, row)
if not old then
  local kept_since, by_hour, kept, oldest = math.floor((now - keep * 1000) / 3600000), {}, 0, hour
  for _, name in ipairs(redis.call('HKEYS', table_key)) do
    local of = tonumber(string.match(name, '^(%d+)\n'))
    if not of or of < kept_since then
      gone[#gone + 1] = name
    else
      by_hour[of] = by_hour[of] or {}
      table.insert(by_hour[of], name)
      kept, oldest = kept + 1, math.min(oldest, of)
    end
  end
  if #(by_hour[hour] or {}) >= 200 then
    row = row_of('(others)', '(others)')
    old = redis.call('HGET', table_key, row)
  elseif kept >= 1000 then
    for _, name in ipairs(by_hour[oldest] or {}) do gone[#gone + 1] = name end
  end
end
local count, first
if old then count, first = string.match(old, '^(%d+)\n(%d+)\n') end
count = (tonumber(count) or 0) + 1

-- Nothing below can fail.
in_thousands(gone, function(...) redis.call('HDEL', table_key, ...) end)
redis.call('HSET', table_key, row, table.concat({count, first or ms(now), ms(now), ARGV[4], ARGV[5]}, '\n'))
redis.call('EXPIRE', table_key, keep)
return count
