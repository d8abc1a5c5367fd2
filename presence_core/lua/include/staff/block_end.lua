-- Whether a block is in force, given the value of `until`. What is no number is '' or another program's: to be safe, no
-- end.
local function end_of(ends) return tonumber(ends) or math.huge end
local function is_blocked(now, ends) return ends and now < end_of(ends) end
