-- The sign-in history of a user, a STRING (models/answers.py reads it). A byte says how many texts there are. Each text
-- has its length before it (2 bytes). Then each sign-in has 9 bytes, the oldest first: when, ms (6 bytes); the flags of
-- field 'o' (1); the numbers of two texts (1 each): the place (country and city, one a line) and the client (device,
-- app, app version, os and browser). Most people sign in from few places on few devices, so sign-ins share texts.
-- include: clock

-- The functions on it, made by one: the others are made only where sign-ins are kept, and a script may have 200 names.
local function sign_in_history()
  local history = {}
  local MOST = 50

  -- The sign-ins of a value, {at, flags, place, client} each. None of a value that another program wrote.
  function history.read(value)
    local at, texts, sign_ins = 2, {}, {}
    for i = 1, string.byte(value) or 0 do
      if at + 1 > #value then return {} end
      local length = struct.unpack('>I2', value, at)
      texts[i] = string.sub(value, at + 2, at + 1 + length)
      at = at + 2 + length
    end
    while at + 8 <= #value do
      local time, flags, place, client = struct.unpack('>I6BBB', value, at)
      if not (texts[place] and texts[client]) then return {} end
      sign_ins[#sign_ins + 1] = {time, flags, texts[place], texts[client]}
      at = at + 9
    end
    return sign_ins
  end

  local function write_sign_ins(sign_ins)
    local numbers, texts, entries = {}, {}, {}
    local function number_of(text)
      if not numbers[text] then
        texts[#texts + 1] = struct.pack('>I2', #text) .. text
        numbers[text] = #texts
      end
      return numbers[text]
    end
    for i, sign_in in ipairs(sign_ins) do
      entries[i] = struct.pack('>I6BBB', sign_in[1], sign_in[2], number_of(sign_in[3]), number_of(sign_in[4]))
    end
    return string.char(#texts) .. table.concat(texts) .. table.concat(entries)
  end

  -- Keep them until the newest has been kept for `keep` ms; nil: as long as before.
  function history.store(key, sign_ins, keep)
    local until_ms = keep and {'PXAT', ms(sign_ins[#sign_ins][1] + keep)} or {'KEEPTTL'}
    redis.pcall('SET', key, write_sign_ins(sign_ins), unpack(until_ms))
  end

  -- Add a sign-in. `text`: for how many ms it is kept, its place, its client. An imported one may be older than others,
  -- and may have been imported before. A key of a foreign type, or that this user may not write, stops no login.
  function history.note(now, key, at, flags, text, is_imported)
    local value, kept = redis.pcall('GET', key), {}
    local keep_ms, place, client = string.match(text, '^(%d+)\n([^\n]*\n[^\n]*)\n(.*)$')
    local keep = tonumber(keep_ms)
    if type(value) == 'table' or at <= now - keep then return end
    for _, sign_in in ipairs(value and history.read(value) or {}) do
      if sign_in[1] > now - keep then kept[#kept + 1] = sign_in end
      if is_imported and sign_in[1] == at and sign_in[4] == client then return end
    end
    local position = #kept + 1
    while position > 1 and kept[position - 1][1] > at do position = position - 1 end
    table.insert(kept, position, {at, flags, place, client})
    if #kept > MOST then table.remove(kept, 1) end
    history.store(key, kept, keep)
  end

  return history
end
