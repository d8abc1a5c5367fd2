-- The session record: models/sessions.py has its table. Every script reads the core by these functions.
-- include: clock
-- include: given_fields
-- include: sessions/packed_core

-- Login time, ms.
local function login_of(core) return (struct.unpack('>I8', core)) end

-- The deadline of a session that was last seen at `seen`, and its login time: numbers, ms; and whether it is the
-- absolute timeout that ends it.
local function deadline_of(seen, core)
  local login, idle, absolute = struct.unpack('>I8I4I4', core)
  local by_idle, by_absolute = seen + idle * 1000, login + absolute * 1000
  local is_absolute = by_absolute <= by_idle
  return is_absolute and by_absolute or by_idle, login, is_absolute
end

-- Whether an absolute deadline is the end that the identity provider has set: timeouts are whole seconds, so it comes
-- up to a second before that.
local function ends_by_idp(deadline, idp_end)
  return idp_end and #idp_end == 8 and struct.unpack('>I8', idp_end) - deadline < 1000
end

-- Whether these are last seen and core as we write them. A record with anything else counts as lost.
local function is_intact(seen, core)
  return core and #core >= 40 and string.byte(core) == 0 and seen and #seen < 16 and string.find(seen, '^%d+$') ~= nil
end

-- Of the latest revoke_before: sessions that began up to `revoked` have ended, at `revoked_at`, ms. -1 and 0: there was
-- none.
local function watermark(meta)
  local found = redis.call('HMGET', meta, 'revoked', 'revoked_at')
  return tonumber(found[1] or -1), tonumber(found[2] or 0)
end

-- Whether the watermark ended a session: it came before the deadline, however late that is found.
local function is_revoked(now, login, deadline, revoked, revoked_at)
  return login <= revoked and (now < deadline or revoked_at < deadline)
end

-- How such a session ended, read once: a drain needs it for every session.
local revoked_how
local function revoked_end(meta)
  if revoked_how then return revoked_how end
  local at, by, note, message =
    unpack(redis.call('HMGET', meta, 'revoked_at', 'revoked_by', 'revoked_note', 'revoked_message'))
  revoked_how = add_given({'e', 'kicked', 'ea', at or '0', 'ec', 'revoked'}, {eb = by, en = note, em = message})
  return revoked_how
end
