-- Whether a session moved, where its address changed: docs/use/moves.md has the rule. A session that has moved has
-- further lines in field 'w' of its record (latest_place.lua): 1 when, ms; 2 when it was last seen before that, ms; 3
-- 'distant' if no plane flies so fast, or ''; its place (4 to 8), network, os and browser before; the same after (12 to
-- 19); 20 how many moves it has had; 21 the countries to which it has moved; 22 the families, as digests.
-- include: login/distance
local MOST_MOVES = 50 -- of one session that are reported: no visitor can fill the events

local function lines_of(packed)
  local lines = {}
  for line in string.gmatch(packed, '\n([^\n]*)') do lines[#lines + 1] = line end
  return lines
end

local function part(lines, first, last) return lines[last] and table.concat(lines, '\n', first, last) end

local function system_of(place) return string.match(place, '^[^\n]*\n(%d+)') end

-- The network of an address where its AS number is not known: /16 of IPv4, /32 of IPv6.
local function network_of(ip)
  if #ip == 4 then return string.format('%d.%d.0.0/16', string.byte(ip, 1, 2)) end
  if #ip == 16 then return string.format('%x:%x::/32', struct.unpack('>I2I2', ip)) end
  return ''
end

-- Whether two addresses are in different networks. Not if nothing is known of one of them.
local function is_other_network(before, ip, last, place)
  local from, to = system_of(last), system_of(place)
  if from and to then return from ~= to end
  return #before > 0 and network_of(before) ~= network_of(ip)
end

-- os and browser of a label, a line each, without what would not fit; '' if no user agent is known.
local function family_of(text)
  local os, browser = string.match(text, '^([^\n]*)\n([^\n]*)')
  if not os then return '' end
  return string.gsub(string.sub(os, 1, 32), '%c', ' ') .. '\n' .. string.gsub(string.sub(browser, 1, 32), '%c', ' ')
end

-- The family that the login of a session had.
local function login_family(row, labels)
  local label = string.sub(row[R.core], 37, 40)
  local text = row[R.agent] or label ~= '\0\0\0\0' and redis.pcall('HGET', labels, label)
  return type(text) == 'string' and family_of(text) or ''
end

local function family_id(family) return string.sub(redis.sha1hex(family), 1, 8) end

local function is_near(here, place)
  local from, to = coordinates(here), coordinates(place)
  return from and to and distance(from, to) <= NEAREST
end

-- Whether a place is in a country in which the session has not been, and not just across a border, from the last place
-- or that of the login: nearer places are not sure enough, and the gateway of a mobile network may be far.
local function is_abroad(lines, at_login, last, place)
  local from, to = country_of(last), country_of(place)
  if to == '' or from == '' or from == to then return false end
  if country_of(at_login) == to or string.find(lines[21] or '', to, 1, true) then return false end
  return not is_near(last, place) and not is_near(at_login, place)
end

-- Whether a user agent is of a family that the session has not had.
local function is_other_family(lines, at_login, family)
  if at_login == '' or family == at_login then return false end
  if lines[22] then return not string.find(lines[22], family_id(family), 1, true) end
  return family ~= part(lines, 10, 11) and family ~= part(lines, 18, 19) -- written before it had line 22
end

-- Flag and report a move. A key of a foreign type, or a command that is not permitted, turns no visitor away.
local function report_move(k, now, ref, row, is_distant_move, max_events)
  local odd = row[R.odd] or '\0'
  local flags = bit.bor(string.byte(odd), FLAG_MOVED)
  if is_distant_move and bit.band(flags, FLAG_ON_BEHALF) == 0 then flags = bit.bor(flags, FLAG_DISTANT) end
  row[R.odd] = string.char(flags) .. string.sub(odd, 2)
  redis.call('HSET', k.record, 'o', row[R.odd])
  redis.pcall('HINCRBY', k.totals, 'moved', 1)
  redis.pcall('XADD', k.events, 'MAXLEN', '~', max_events, '*', 'k', 'moved', 'r', ref, 'a', ms(now))
end

-- Note where a request comes from that may be a move. `last`, `since`: the place before, and when the session was seen
-- there, ms; `further`: the further lines; `before`, `ip`: both addresses; `given`: what the request says. Returns the
-- further lines as they are now, and whether the session has moved.
local function note_move(k, now, ref, row, last, since, further, before, ip, given)
  local lines, place, family = lines_of(further), given.place, family_of(given.family)
  local number, old_family = tonumber(lines[20] or '') or 0, nil
  local has_moved = is_abroad(lines, row[R.place] or '', last, place)
  if has_moved or family ~= '' and is_other_network(before, ip, last, place) then
    local first_family = login_family(row, k.labels)
    old_family = part(lines, 18, 19) or first_family ~= '' and first_family or '\n'
    has_moved = has_moved or is_other_family(lines, first_family, family)
  end
  if not has_moved or number >= MOST_MOVES and given.on_move == 'flag' then return further, false end

  local here, there, to, countries = coordinates(last), coordinates(place), country_of(place), lines[21] or ''
  local is_far = here and there and country_of(last) ~= to and is_distant(here, there, now - since)
  if to ~= '' and not string.find(countries, to, 1, true) then countries = countries .. ' ' .. to end
  local families, id = lines[22] or '', family_id(family ~= '' and family or old_family)
  if not string.find(families, id, 1, true) then families = string.sub(families .. ' ' .. id, -9 * MOST_MOVES) end
  report_move(k, now, ref, row, is_far, given.max_events)
  return '\n' .. table.concat({
    ms(now), ms(since), is_far and 'distant' or '',
    last ~= '' and last or NOWHERE, network_of(before), old_family,
    place ~= '' and place or NOWHERE, network_of(ip), family ~= '' and family or old_family,
    tostring(number + 1), countries, families,
  }, '\n'), true
end

-- Require a new sign-in of a session that has moved, as sessions/require_sign_in.lua does for staff.
local function demand_sign_in(k, now, ref, row, max_events)
  row[R.demand] = struct.pack('>I8', now)
  redis.call('HSET', k.record, 'q', row[R.demand])
  redis.pcall('XADD', k.events, 'MAXLEN', '~', max_events, '*', 'k', 'sign_in_required', 'r', ref, 'a', ms(now))
  redis.call('HSET', k.meta, 'demanded', ms(math.max(now, tonumber(redis.call('HGET', k.meta, 'demanded') or 0))))
end
