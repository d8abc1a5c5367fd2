-- include: sessions/session_record
-- include: sessions/noted_end
-- include: read_derived
local UNKNOWN, LIVE, ENDED, NO_RECORD = 0, 1, 2, 3
local SIGN_IN_REQUIRED, AUTHENTICATION_TOO_OLD, OLD_SECRET = 4, 5, 6 -- live, but this request is refused

-- What a session is now. Returns:
--   state   NO_RECORD: the lists name it, but there is no record
--   row     the values of its fields, each at its place; of a live session up to the last that it has
--   how     the fields of its end and their values, where the tombstone is still to be written
-- ENDED without an end in row or how: past its deadline.
local function state_of(now, sessions, closing, meta, ref, record)
  local row = read_derived('HMGET', record, RECORD_FIELDS)
  local listed = redis.call('ZSCORE', sessions, ref)
  if not is_intact(row[R.seen], row[R.core]) then return listed and NO_RECORD or UNKNOWN, {} end
  local odd = row[R.odd]
  if row[R.last_ip] and row[R.place] or odd and bit.band(string.byte(odd) or 0, FLAG_MOVED) > 0 then
    row[R.declared], row[R.move] = false, read_derived('HGET', record, 'w')
  end
  if row[R.end_reason] then
    row[R.declared], row[R.move] = false, row[R.move] or false
    for i, value in ipairs(redis.call('HMGET', record, END_FIELDS)) do row[R.move + i] = value end
    return ENDED, row
  end
  local deadline, login = deadline_of(tonumber(row[R.seen]), row[R.core])
  if not listed then
    local noted = redis.call('HGET', closing, ref)
    return noted and ENDED or UNKNOWN, row, noted and noted_end(noted, math.min(now, deadline))
  end
  if is_revoked(now, login, deadline, watermark(meta)) then return ENDED, row, revoked_end(meta) end
  if now >= deadline then return ENDED, row end
  for at = row[R.move] and 0 or R.end_reason, R.authentication, -1 do -- few sessions have these: a shorter reply
    if row[at] then break end
    row[at] = nil
  end
  return LIVE, row
end
