-- What may be odd about a login. Field 'o' of the record has it: a byte of flags, and the member of staff who logged in
-- on behalf of the user, or the login before a distant one. Sessions without a flag have no 'o'.
-- `known`, HASH: digest of a device (16 bytes) → the user's last login on it, ms.
-- `last_place`, STRING: the user's last login with a known place, ms (8 bytes), and that place without the name of the
-- network, so that 'o' has at most 64 bytes. After REACH seconds a plane can be anywhere, and it is not kept.
-- include: login/distance
-- include: failures
local MAX_DEVICES = 50
local KEY_OVERLAP = 60000

-- What the login names, as JSON, or '': `devices`, digests of its device in hex, the first by the key of today, others
-- by earlier keys; `rotated`, when the key of today was made, ms; `keep`, for how many seconds devices
-- are kept (0: not at all); `by` and `reason` of a login on behalf of the user.
local function read_odd(given, now)
  local odd = given ~= '' and cjson.decode(given) or {}
  for i, hex in ipairs(odd.devices or {}) do
    odd.devices[i] = string.gsub(hex, '..', function(pair) return string.char(tonumber(pair, 16)) end)
  end
  if odd.devices and odd.devices[2] and now < odd.rotated + KEY_OVERLAP then -- other clients may not know the new key
    odd.devices[1], odd.devices[2] = odd.devices[2], odd.devices[1]
  end
  return odd
end

-- The user's devices: {digest, last login}, oldest first; and the digests that are no longer kept.
local function read_devices(known, oldest)
  local flat, devices, outdated = redis.pcall('HGETALL', known), {}, {}
  if flat.err then return nil end
  for i = 1, #flat, 2 do
    local at = tonumber(flat[i + 1]) or 0
    if at < oldest then outdated[#outdated + 1] = flat[i] else devices[#devices + 1] = {flat[i], at} end
  end
  table.sort(devices, function(a, b) return a[2] < b[2] end)
  return devices, outdated
end

-- Note the device of a login. Returns whether it is new: the user has others, and not this one. A user without any has
-- nothing that it could differ from. A key of a foreign type stops no login.
local function note_device(odd, login)
  local known = odd.known
  local devices, outdated = read_devices(known, login - odd.keep * 1000)
  if not devices then return false end
  local is_known, latest, number = false, login, #devices + 1
  for _, device in ipairs(devices) do
    for _, digest in ipairs(odd.devices) do is_known = is_known or device[1] == digest end
    if device[1] == odd.devices[1] then latest, number = math.max(login, device[2]), number - 1 end
    if device[1] == odd.devices[2] then outdated[#outdated + 1], number = device[1], number - 1 end
  end
  for _, device in ipairs(devices) do
    if number <= MAX_DEVICES then break end
    if device[1] ~= odd.devices[1] and device[1] ~= odd.devices[2] then
      outdated[#outdated + 1], number = device[1], number - 1
    end
  end
  if #outdated > 0 then redis.call('HDEL', known, unpack(outdated)) end
  redis.call('HSET', known, odd.devices[1], ms(latest))
  redis.call('EXPIRE', known, odd.keep)
  return #devices > 0 and not is_known
end

-- Note the place of a login. Returns the login before, as `last_place` has it, if it was too far away for the time
-- between. A key of a foreign type stops no login.
local function note_place(odd, login)
  local from = odd.place ~= '' and coordinates(odd.place)
  local before = from and redis.pcall('GET', odd.last_place)
  if not from or type(before) == 'table' then return nil end
  local short = string.gsub(odd.place, '^([^\n]*\n[^\n]*\n)[^\n]*', '%1', 1)
  redis.call('SET', odd.last_place, struct.pack('>I8', login) .. short, 'EX', REACH)
  local to = before and #before > 8 and coordinates(string.sub(before, 9))
  if to and is_distant(from, to, math.abs(login - struct.unpack('>I8', before))) then return before end
end

-- Note what is odd about a login, once. `before`: field 'o' of the same login before, or false: what was odd stays so.
-- An imported session only makes its device known. Returns the field 'o', or ''.
local function note_odd(k, policy, odd, new, before, is_imported)
  local flags, found = before and string.byte(before) or 0, {}
  if odd.devices and odd.keep > 0 and note_device(odd, new.login) and not is_imported then
    flags = bit.bor(flags, FLAG_NEW_DEVICE)
    found[1] = 'new_device'
  end
  local last = odd.place and not new.is_repeat and not is_imported and note_place(odd, new.login)
  if last then
    flags = bit.bor(flags, FLAG_DISTANT)
    found[#found + 1] = 'distant'
  end
  if odd.guesses >= MANY then
    flags = bit.bor(flags, FLAG_AFTER_FAILURES)
    found[#found + 1] = 'after_failures'
  end
  for _, kind in ipairs(found) do
    redis.call('HINCRBY', k.totals, kind, 1)
    redis.call('XADD', k.events, 'MAXLEN', '~', policy.events, '*', 'k', kind, 'r', new.ref, 'a', ms(new.login))
  end
  if odd.by then flags = bit.bor(flags, FLAG_ON_BEHALF) end
  return flags > 0 and string.char(flags) .. (odd.by or last or before and string.sub(before, 2) or '') or ''
end
