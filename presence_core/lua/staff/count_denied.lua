#!lua flags=allow-oom
-- Counts an attempt of a staff member that their role does not allow. There is one row per actor, action and hour, so
-- that a flood stays small: past 200 rows in one hour all further attempts share a row; past 1,000 rows the oldest hour
-- goes.
-- include: clock
-- include: sessions/end_session
-- KEYS: 1 denied
-- ARGV: 1 now|'' 2 by 3 what 4 uid|'' 5 reason|'' 6 seconds to keep
-- returns: the count of this row
-- A row: "hour\nwhat\nby" → "count\nfirst ms\nlast ms\nuid\nreason". Only the reason may hold a line break.
local denied, given_now, by, action, uid, reason, keep = KEYS[1], unpack(ARGV)
local now = clock(given_now)
local bad = foreign('HLEN', denied)
if bad then return bad end
local hour = math.floor(now / 3600000)
local function row_of(action_name, actor) return string.format('%d\n%s\n%s', hour, action_name, actor) end

-- The rows that may go, and whether this hour has its own rows for as many actors as it may.
local function survey()
  local oldest_kept = math.floor((now - tonumber(keep) * 1000) / 3600000)
  local outdated, by_hour, rows, oldest = {}, {}, 0, hour
  for _, name in ipairs(redis.call('HKEYS', denied)) do
    local row_hour = tonumber(string.match(name, '^(%d+)\n'))
    if not row_hour or row_hour < oldest_kept then
      outdated[#outdated + 1] = name
    else
      by_hour[row_hour] = by_hour[row_hour] or {}
      table.insert(by_hour[row_hour], name)
      rows, oldest = rows + 1, math.min(oldest, row_hour)
    end
  end
  if #(by_hour[hour] or {}) >= 200 then return outdated, true end
  if rows >= 1000 then
    for _, name in ipairs(by_hour[oldest] or {}) do outdated[#outdated + 1] = name end
  end
  return outdated, false
end

local row, outdated, is_full = row_of(action, by), {}, false
local old = redis.call('HGET', denied, row)
if not old then
  outdated, is_full = survey()
  if is_full then
    row = row_of('(others)', '(others)')
    old = redis.call('HGET', denied, row)
  end
end
local count, first
if old then count, first = string.match(old, '^(%d+)\n(%d+)\n') end
count = (tonumber(count) or 0) + 1

-- Nothing below can fail.
in_thousands(outdated, function(...) redis.call('HDEL', denied, ...) end)
redis.call('HSET', denied, row, table.concat({count, first or ms(now), ms(now), uid, reason}, '\n'))
redis.call('EXPIRE', denied, keep)
return count
