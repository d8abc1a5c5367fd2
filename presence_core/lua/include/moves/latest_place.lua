-- Where a session is now: field 'w' of its record, where that differs from the place of its login (field 'g').
-- Lines 1 to 5 are the place of the latest address (models/places.py), or the last that was known; 6 is '', or when the
-- session was last seen there, ms, if the place of the addresses since is not known. note_move.lua adds more lines.
local NOWHERE = '\n\n\n\n'
local LATEST = '^([^\n]*\n[^\n]*\n[^\n]*\n[^\n]*\n[^\n]*)\n([^\n]*)(.*)$'

local function country_of(place) return string.match(place, '^[^\n]*') end

-- The place of the address before, '' if none was known; when the session was last seen there, if not at its last
-- request, or ''; and the further lines.
local function read_latest(row)
  if not row[R.move] then return row[R.place] or '', '', '' end
  local place, since, further = string.match(row[R.move], LATEST)
  if not place then return row[R.place] or '', '', '' end -- another program's
  return place ~= NOWHERE and place or '', since, further
end

-- Keep a place, as the lines 1 to 6, in front of the further lines.
local function keep_latest(record, row, place, since, further)
  local packed = (place ~= '' and place or NOWHERE) .. '\n' .. since .. further
  if packed == (row[R.place] or NOWHERE) .. '\n' then packed = false end -- as at login
  if packed == row[R.move] then return end
  if packed then redis.call('HSET', record, 'w', packed) else redis.call('HDEL', record, 'w') end
  row[R.move] = packed
end
