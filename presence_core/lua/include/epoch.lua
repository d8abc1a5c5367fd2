-- Fencing tokens (Martin Kleppmann, "How to do distributed locking", 2016). A bulk kick's `epoch` rises whenever another
-- gets hold of it, or staff stop it. `fence`, beside it on every shard, is raised to it before anybody relies on that:
-- from then on finish.lua ends nothing for whoever has an earlier one, however late it comes.

-- A number that we have written; 0 for none, and for what other programs put in its place.
local function whole(text) return text and #text < 16 and tonumber(string.match(text, '^%d+$')) or 0 end
