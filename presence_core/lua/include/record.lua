-- The session record: models/sessions.py draws its table. Every script reads the core through these lines and no others.
local CORE = '>I8I4I4c16c4c4'
local NO_LABEL, INLINE = '\0\0\0\0', '\255\255\255\255'
local UNKNOWN, LIVE, ENDED, DIRTY = 0, 1, 2, 3

local function login_of(core) return (struct.unpack('>I8', core)) end

-- When it dies unless seen again, and when it began. seen is a number, ms.
local function deadline_of(seen, core)
  local login, idle, absolute = struct.unpack('>I8I4I4', core)
  return math.min(seen + idle * 1000, login + absolute * 1000), login
end

-- Whether these are last seen and core as we write them. Anything else is as good as gone.
local function sound(seen, core)
  return core and #core >= 40 and string.byte(core) == 0 and seen and #seen < 16 and string.find(seen, '^%d+$') ~= nil
end

-- Sessions that began up to here were signed out all together, and when that was: see revoke.lua. -1: none were.
local function watermark(meta)
  local about = redis.call('HMGET', meta, 'revoked', 'revoked_at')
  return tonumber(about[1] or -1), tonumber(about[2] or 0)
end

-- Whether that was the end of a session, and not its deadline: what came first, however late a sweep finds it.
local function signed_out(now, login, dies, revoked, at) return login <= revoked and (now < dies or at < dies) end

-- How such a session ended, read once: a drain asks it of every session.
local how_revoked
local function revocation(meta)
  if how_revoked then return how_revoked end
  local about = redis.call('HMGET', meta, 'revoked_at', 'revoked_by', 'revoked_note', 'revoked_message')
  local how = {'e', 'kicked', 'ea', about[1] or '0', 'ec', 'revoked'}
  for i, field in ipairs({'eb', 'en', 'em'}) do
    if about[i + 1] and about[i + 1] ~= '' then
      how[#how + 1] = field
      how[#how + 1] = about[i + 1]
    end
  end
  how_revoked = how
  return how
end

-- What a session is right now: state, row (the values of SESSION_FIELDS and, where it has ended, of END_FIELDS), how
-- (unpacked, for one whose tombstone is still to be written). ENDED without an end in row or how: past its deadline.
-- DIRTY: the lists name it, but there is no record.
local function state_of(now, sessions, closing, meta, ref, record)
  local row = redis.pcall('HMGET', record, 's', 'c', 'n', 'a', 'i', 'x', 'C', 'A', 'e')
  local listed = redis.call('ZSCORE', sessions, ref)
  if not sound(row[1], row[2]) then return listed and DIRTY or UNKNOWN, {} end
  if row[9] then
    for i, value in ipairs(redis.call('HMGET', record, 'ea', 'ec', 'eb', 'en', 'et', 'em', 'er')) do row[9 + i] = value end
    return ENDED, row
  end
  if not listed then
    local how = redis.call('HGET', closing, ref)
    return how and ENDED or UNKNOWN, row, how and cmsgpack.unpack(how)
  end
  local dies, login = deadline_of(tonumber(row[1]), row[2])
  if signed_out(now, login, dies, watermark(meta)) then return ENDED, row, revocation(meta) end
  if now >= dies then return ENDED, row end
  return LIVE, row
end
