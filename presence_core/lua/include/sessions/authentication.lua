-- When and how the visitor of a session authenticated, and whether staff require a new sign-in. Two fields of a record:
--   h  when, ms (8 bytes); '1' for several factors, else '0'; names of methods, joined by commas. Without it: at login
--   q  when staff required it, ms (8 bytes); the id of their message to the visitor, if there is one
-- Both are packed: a hash keeps its compact encoding only while each value has at most 64 bytes.
-- include: sessions/session_record

local function packed_time(packed, default)
  return packed and #packed >= 8 and (struct.unpack('>I8', packed)) or default
end

-- When the visitor authenticated, ms. `authentication`: the field `h`, or false.
local function authenticated_at(core, authentication)
  return packed_time(authentication, login_of(core))
end

-- When staff required a new sign-in, ms. `demand`: the field `q`.
local function demanded_at(demand) return packed_time(demand, math.huge) end

local function pack_authentication(at, methods) return struct.pack('>I8', at) .. methods end

-- Of a login, what its record says: h and q. `methods` is '' where the site names none. The same login again is no new
-- authentication, because a site may only have lost the reply to the first: it keeps both.
local function login_authentication(record, login, methods, is_repeat)
  if is_repeat then return redis.call('HMGET', record, 'h', 'q') end
  return {methods ~= '' and pack_authentication(login, methods), false}
end
