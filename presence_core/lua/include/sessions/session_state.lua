-- include: sessions/session_record
-- include: sessions/noted_end
-- include: read_derived
local UNKNOWN, LIVE, ENDED, NO_RECORD = 0, 1, 2, 3
local SIGN_IN_REQUIRED, AUTHENTICATION_TOO_OLD = 4, 5 -- live, but this request is refused

-- What a session is now. Returns:
--   state   NO_RECORD: the lists name it, but there is no record
--   row     the values of SESSION_FIELDS and 'e' and, where it has ended, the rest of END_FIELDS; where it has
--           ODD_FIELDS, these behind all of that
--   how     END_FIELDS and values, where the tombstone is still to be written
-- ENDED without an end in row or how: past its deadline.
local function state_of(now, sessions, closing, meta, ref, record)
  local row = read_derived('HMGET', record, 's', 'c', 'n', 'a', 'i', 'x', 'C', 'A', 'h', 'q', 'e', 'o', 'g')
  local odd, place = row[12], row[13]
  if not (odd or place) then row[12], row[13] = nil, nil end
  local listed = redis.call('ZSCORE', sessions, ref)
  if not is_intact(row[1], row[2]) then return listed and NO_RECORD or UNKNOWN, {} end
  if row[11] then
    local ended = redis.call('HMGET', record, 'ea', 'ec', 'eb', 'en', 'et', 'em', 'er')
    for i, value in ipairs(ended) do row[11 + i] = value end
    if odd or place then row[19], row[20] = odd, place end
  end
  if row[11] then return ENDED, row end
  local deadline, login = deadline_of(tonumber(row[1]), row[2])
  if not listed then
    local noted = redis.call('HGET', closing, ref)
    return noted and ENDED or UNKNOWN, row, noted and noted_end(noted, math.min(now, deadline))
  end
  if is_revoked(now, login, deadline, watermark(meta)) then return ENDED, row, revoked_end(meta) end
  if now >= deadline then return ENDED, row end
  return LIVE, row
end
