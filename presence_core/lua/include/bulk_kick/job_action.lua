-- What the audit calls the work of a job: `kind` is 'timeouts', or '' or nil for a kick.
local function job_action(kind) return kind == 'timeouts' and 'change_timeouts_where' or 'kick_where' end
