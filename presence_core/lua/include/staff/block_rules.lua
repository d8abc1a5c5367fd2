-- Whether a block rule refuses a login. T:block_rules has a rule for each field: '4/24:' or '6/48:' and the first bytes
-- of the addresses, with the bits behind the prefix zero; or 'app:', app, a line break, version; or 'country:' and its
-- code. `lookup`, of T:meta, has the parts before the colons, so that only fields that may be there are read.
-- Comparisons are of equal bytes.
-- include: clock
-- include: key_types
-- include: staff/block_end

-- The reply that refuses the login, or nil. `ip`: packed, or ''; `client`: device, app and version, one a line;
-- `place`: models/places.py, or ''. Its functions are inside, because sites without rules do not need them.
local function refusing_rule(now, block_rules, lookup, ip, client, place)
  local function network_field(family, length)
    local bits = tonumber(length)
    local whole, rest = math.floor(bits / 8), bits % 8
    local prefix = string.sub(ip, 1, whole)
    if rest > 0 then
      local last = string.byte(ip, whole + 1)
      prefix = prefix .. string.char(last - last % 2 ^ (8 - rest))
    end
    return family .. '/' .. length .. ':' .. prefix
  end

  -- The fields that could hold a rule for this login.
  local function rule_fields()
    local fields, family = {}, #ip == 4 and '4' or '6'
    if ip ~= '' then
      for length in string.gmatch(lookup, family .. '/(%d+)') do
        fields[#fields + 1] = network_field(family, length)
      end
    end
    if client ~= '' and string.find(lookup, 'app', 1, true) then
      fields[#fields + 1] = 'app:' .. string.match(client, '\n(.*)$')
    end
    if place ~= '' and string.find(lookup, 'country', 1, true) then
      fields[#fields + 1] = 'country:' .. string.match(place, '^[^\n]*')
    end
    return fields
  end

  -- A field as people read it in one line: '4/24:' and the bytes of its network in hex, or app and version.
  local function rule_name(field)
    local front, value = string.match(field, '^(.-:)(.*)$')
    if not string.match(front, '^%d') then return (string.gsub(field, '\n', ' ')) end
    return front .. string.gsub(value, '.', function(byte) return string.format('%02x', string.byte(byte)) end)
  end

  local fields = rule_fields()
  if #fields == 0 then return nil end
  local found = redis.pcall('HMGET', block_rules, unpack(fields))
  if found.err then return foreign('HLEN', block_rules) end
  for i = 1, #fields do
    local is_rule, rule = pcall(cjson.decode, found[i] or '{"until":0}')
    if not is_rule or type(rule) ~= 'table' then rule = {} end -- another program's: to be safe, without an end
    if is_blocked(now, rule['until'] or '') then
      local ends, message = tonumber(rule['until']), rule.message
      local kind = string.match(fields[i], '^%a+') or 'network'
      return {'block_rule', kind == 'app' and 'app_version' or kind,
              type(message) == 'string' and message or '', ends and ms(ends) or '', rule = rule_name(fields[i])}
    end
  end
end
