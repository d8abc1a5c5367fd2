-- A copy of a session in the site's own store: its id begins so. The site decides how many a user has and how long they
-- live, so no limit of ours counts or ends it.
local function is_mirrored(sid)
  return string.byte(sid, 7) == 45 and string.sub(sid, 1, 7) == 'mirror-'
end

-- Scripts read all sessions of a user: further copies are not begun.
local MAX_MIRRORED = 1000
