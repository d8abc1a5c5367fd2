-- How long this script has held the server, in seconds. Servers before Redis 7.4 have no os.clock: on 7.0 TIME tells; on
-- 7.2, where TIME stands still while a script runs, the entries looked at stand for it.
local has_clock = pcall(function() return os.clock() end)
local function instant()
  if has_clock then return os.clock() end
  local t = redis.call('TIME')
  return t[1] + t[2] / 1000000
end
local began = instant()
local function held(entries) return math.max(instant() - began, has_clock and 0 or entries * 0.000002) end
