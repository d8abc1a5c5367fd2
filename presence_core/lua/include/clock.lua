-- now, ms: the clock of the server, because the clocks of app servers are not trusted. A test may give the time.
local function clock(given)
  if given ~= '' then return tonumber(given) end
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- Milliseconds as text: Lua's own conversion would round them. It takes as long as a short command, and most scripts
-- write one time several times: the last one is kept.
local last_ms, last_text
local function ms(number)
  if number ~= last_ms then last_ms, last_text = number, string.format('%.0f', number) end
  return last_text
end
