-- now, Unix seconds, for the trackers: the server's clock, or the time that the caller gives.
local function clock_seconds(given)
  if given ~= '' then return tonumber(given) end
  local t = redis.call('TIME')
  return t[1] + t[2] / 1000000
end

-- A score as text: Lua's own conversion would round it.
local function score(number) return string.format('%.17g', number) end
