-- How long this script has run, in seconds. Servers before Redis 7.4 have no os.clock: 7.0 has TIME; on 7.2, where TIME
-- does not change while a script runs, the time is estimated from the number of entries.
local has_clock = pcall(function() return os.clock() end)
local function instant()
  if has_clock then return os.clock() end
  local t = redis.call('TIME')
  return t[1] + t[2] / 1000000
end
local began = instant()
local function seconds_used(entries) return math.max(instant() - began, has_clock and 0 or entries * 0.000002) end
