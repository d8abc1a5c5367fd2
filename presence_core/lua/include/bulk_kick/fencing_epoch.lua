-- Fencing tokens (Martin Kleppmann, "How to do distributed locking", 2016). A bulk kick's `epoch` rises whenever
-- another runner claims the job, or staff stop it. Its twin on every shard, `fence`, is raised to it before anything
-- relies on that: from then on bulk_kick/kick_sessions.lua ends no session for a runner of an earlier epoch, however
-- late its call.

-- A number that we have written; 0 for none, and for another program's value.
local function whole(text) return text and #text < 16 and tonumber(string.match(text, '^%d+$')) or 0 end
