-- The conditions of a filter on a record: names and values at the end of ARGV. They let every session pass that may
-- match, and none that surely does not. Where folding needs more than letters of one and two bytes, the client decides,
-- by SessionFilter.matches; it does so in the end for all sessions that are shown.
--   client, agent   the label ids that match, four bytes each; client_not, agent_not: those that do not
--   from, to        first and last address of a network, each family and bytes
--   flags           of what is odd about the login, field 'o': all of these bits
--   sign_in_required  field 'q' is there
--   country, network, city  of the place, field 'g'; a network by its number, a city folded
--   idp_iss, idp_sub, idp_sid  of the link to an identity provider, field 'l'
--   idle, seen      ms since last seen: at least, at most
--   mfa             whether field 'h' says several factors, 0 or 1; methods: all that it must name, one a line
--   prefix          at the start of a word of the name; contains: anywhere in it. Both folded
--   text            what uid, name or an alias must have: needles as JSON (text_search.lua); text_from, text_to: or an
--                   address; text_sessions: or one of these session ids, or text_session_starts: an id that begins
--                   so, of text_owners where there are any; one a line
--   attribute:…     a piece that the JSON of the attributes must have
--   uid; login_from, login_before  of the ref; login at or after, and before, ms: only where no range has tested them
--   not:…           the same of a filter that the session must not match
-- include: sessions/session_record
-- include: read_derived
-- include: sessions/addresses
local find, lower, gsub, sub = string.find, string.lower, string.gsub, string.sub
local fold_letters
local function fold(value) -- nil where letters are not known here; ideographs, of E4 to E9, stay as they are
  if not find(value, '[\128-\255]') then return lower(value) end
  if find(value, '[\224-\227\234-\255]') then return nil end
  fold_letters = fold_letters or FOLD_TABLE
  return lower((gsub(value, '[\194-\223][\128-\191]', fold_letters)))
end

local NO, MAYBE, YES = 0, 1, 2 -- MAYBE: the client has to test

-- Whether needle, folded, is in value, or at the start of one of its words. Most values do not have it, so that is
-- tested first.
local function contains_text(value, needle, at_start)
  if not value or value == '' then return NO end
  local folded = fold(value)
  if not folded then return MAYBE end
  local spaced = find(needle, ' ', 1, true)
  if not spaced and not find(folded, needle, 1, true) then return NO end
  folded = gsub(folded, ' +', ' ')
  if not find(' ' .. folded, at_start and ' ' .. needle or needle, 1, true) then return NO end
  if at_start and select(2, gsub(folded, ' ', ' ')) >= 8 then return MAYBE end -- only the first words count
  return YES
end

local function compare_bytes(a, b) -- of one length; Lua's < depends on the locale
  for i = 1, #a do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x - y end
  end
  return 0
end

-- include: search/text_search
-- Whether an address, the bytes of `text` behind `skip`, lies in a network.
local function is_within(text, skip, from, to)
  if not text or #text - skip ~= #from - 1 then return false end
  if #from == 5 then -- IPv4: one number
    local ip = struct.unpack('>I4', text, skip + 1)
    return ip >= struct.unpack('>I4', from, 2) and ip <= struct.unpack('>I4', to, 2)
  end
  local ip = sub(text, skip + 1)
  return compare_bytes(ip, sub(from, 2)) >= 0 and compare_bytes(ip, sub(to, 2)) <= 0
end

-- Whether the address at login, or the latest, does.
local function is_from(core, latest, from, to)
  return is_within(core, 40, from, to) or is_within(latest, 0, from, to)
end

-- Each adds its tests, functions of a row and a ref, to `tests`.
local function test_core(tests, wanted, now)
  for at, name in pairs({[33] = 'client', [37] = 'agent'}) do
    if wanted[name] then
      local ids = {[NO_LABEL] = NO} -- an id in neither list (new, or INLINE) is left to the client
      for list, fits in pairs({[wanted[name .. '_not']] = NO, [wanted[name]] = YES}) do
        for i = 1, #list, 4 do ids[sub(list, i, i + 3)] = fits end
      end
      tests[#tests + 1] = function(row) return row[1] and (ids[sub(row[1], at, at + 3)] or MAYBE) or NO end
    end
  end
  local from, to = wanted.from, wanted.to
  if from then tests[#tests + 1] = function(row) return is_from(row[1], row[3], from, to) and YES or NO end end
  if wanted.idle or wanted.seen then
    local most = wanted.idle and now - tonumber(wanted.idle) or math.huge
    local least = wanted.seen and now - tonumber(wanted.seen) or -math.huge
    tests[#tests + 1] = function(row)
      local seen = tonumber(row[2] or 0) or 0
      return least <= seen and seen <= most and YES or NO
    end
  end
end

local function test_login(tests, uid, from, before)
  local least, most = tonumber(from or '') or 0, tonumber(before or '') or math.huge
  tests[1] = (uid or from or before) and function(row, ref)
    if uid and match(ref, '^(.*):') ~= uid or not row[1] or #row[1] < 8 then return NO end
    local login = struct.unpack('>I8', row[1])
    return least <= login and login < most and YES or NO
  end
end

local function test_flags(tests, flags)
  tests[1] = flags and function(row)
    return row[1] and bit.band(string.byte(row[1]) or 0, flags) == flags and YES or NO
  end
end

local function test_demand(tests, is_wanted)
  tests[1] = is_wanted and function(row) return row[1] and YES or NO end
end

local function test_link(tests, issuer, subject, session)
  tests[1] = (issuer or subject or session) and function(row)
    local iss, sub, sid = match(row[1] or '', '^([^\n]*)\n([^\n]*)\n([^\n]*)$')
    local fits = iss and (issuer or iss) == iss and (subject or sub) == sub and (session or sid) == sid
    return fits and YES or NO
  end
end

local function test_authentication(tests, mfa, methods)
  tests[1] = (mfa or methods) and function(row) -- without the field, one factor and no methods
    local how = sub(row[1] or '', 9)
    if mfa and (sub(how, 1, 1) == '1') ~= (mfa == '1') then return NO end
    local names = ',' .. sub(how, 2) .. ','
    for name in gmatch(methods or '', '[^\n]+') do
      if not find(names, ',' .. name .. ',', 1, true) then return NO end
    end
    return YES
  end
end

local CITY = '^' .. string.rep('[^\n]*\n', 4) .. '([^\n]*)$'
local function test_place(tests, country, network, city)
  tests[1] = (country or network or city) and function(row)
    local its_country, its_network = match(row[1] or '', '^([^\n]*)\n([^\n]*)')
    if country and its_country ~= country or network and its_network ~= network then return NO end
    if not city then return YES end
    local its_city = fold(match(row[1] or '', CITY) or '')
    return not its_city and MAYBE or gsub(its_city, ' +', ' ') == city and YES or NO
  end
end

local function test_name(tests, wanted)
  local prefix, contains = wanted.prefix, wanted.contains
  if prefix then tests[#tests + 1] = function(row) return contains_text(row[1], prefix, true) end end
  if contains then tests[#tests + 1] = function(row) return contains_text(row[1], contains) end end
end

local function test_attributes(tests, pieces)
  for _, piece in ipairs(pieces) do
    tests[#tests + 1] = function(row) return row[1] and find(row[1], piece, 1, true) and MAYBE or NO end
  end
end

-- A function of a ref: whether it has one of the session ids, or an id of the library with one of the starts, and one
-- of the owners if there are any.
local function named_sessions(wanted)
  local sessions, starts = wanted.text_sessions or '', wanted.text_session_starts or ''
  local owners = wanted.text_owners or ''
  local ids, uids, begins = {}, owners ~= '' and {} or nil, {}
  for start in gmatch(starts, '[^\n]+') do begins[#begins + 1] = start end
  for id in gmatch(sessions, '[^\n]+') do ids[id] = true end
  for uid in gmatch(owners, '[^\n]+') do uids[uid] = true end
  if sessions == '' and starts == '' then return function() return false end end
  return function(ref)
    local uid, id = match(ref, '^(.*):([^:]*)$')
    if not id or uids and not uids[uid] then return false end
    if #id == 22 and find(id, '%l') and find(id, '%u') then
      for i = 1, #begins do
        if sub(id, 1, #begins[i]) == begins[i] then return true end
      end
    end
    return ids[id]
  end
end

local function test_text(tests, wanted)
  if not wanted.text then return end
  local needles, from, to = cjson.decode(wanted.text), wanted.text_from, wanted.text_to
  local patterns = needle_patterns(needles)
  local is_named = named_sessions(wanted)
  local fitting = {} -- names that match: many people have the same one
  tests[1] = function(row, ref)
    if fitting[row[1]] or is_named(ref) or from and is_from(row[3], row[4], from, to) then return YES end
    if not may_have(ref .. '\n' .. (row[1] or '') .. '\n' .. (row[2] or ''), patterns) then return NO end
    local best = row[1] and search_line(row[1], needles, true) or NO
    if best == YES then
      fitting[row[1]] = true
      return YES
    end
    for alias in gmatch(row[2] or '', '[^\n]+') do
      best = math.max(best, search_line(alias, needles))
      if best == YES then return YES end
    end
    return math.max(best, search_uid(match(ref, '^(.*):') or '', needles))
  end
end

local single = {} -- reused, so that nothing is allocated for each entry
local function read_fields(record, fields)
  if fields[2] then return read_derived('HMGET', record, unpack(fields)) end
  local value = read_derived('HGET', record, fields[1])
  single[1] = type(value) == 'string' and value
  return single
end

-- The test of one filter; nil where everything passes. It runs for every entry. So the cheap conditions that most fail
-- come first, and the rest of the record is read only for those that pass them.
local function filter_test(now, wanted, pieces)
  local stages, fields_of, tests_of = 0, {}, {}
  local function add_stage(fields, add_tests, ...)
    local tests = {}
    add_tests(tests, ...)
    if #tests > 0 then
      stages = stages + 1
      fields_of[stages], tests_of[stages] = fields, tests
    end
  end
  add_stage({'c'}, test_login, wanted.uid, wanted.login_from, wanted.login_before)
  add_stage(wanted.from and {'c', 's', 'i'} or (wanted.idle or wanted.seen) and {'c', 's'} or {'c'}, test_core, wanted,
            now)
  add_stage({'o'}, test_flags, tonumber(wanted.flags or ''))
  add_stage({'q'}, test_demand, wanted.sign_in_required)
  add_stage({'h'}, test_authentication, wanted.mfa, wanted.methods)
  add_stage({'g'}, test_place, wanted.country, wanted.network, wanted.city)
  add_stage({'l'}, test_link, wanted.idp_iss, wanted.idp_sub, wanted.idp_sid)
  add_stage({'n'}, test_name, wanted)
  add_stage({'x'}, test_attributes, pieces)
  add_stage(wanted.text_from and {'n', 'a', 'c', 'i'} or {'n', 'a'}, test_text, wanted)
  if stages == 0 then return end

  return function(ref, record)
    local worst = YES
    for i = 1, stages do
      local row, tests = read_fields(record, fields_of[i]), tests_of[i]
      for t = 1, #tests do
        local fits = tests[t](row, ref)
        if fits < worst then
          if fits == NO then return NO end
          worst = fits
        end
      end
    end
    return worst
  end
end

-- Returns the test, a function of a ref and the key of its record; nil where everything passes.
local function read_tests(now, first)
  local wanted, pieces, unwanted, unwanted_pieces = {}, {}, {}, {}
  for i = first, #ARGV, 2 do
    local name, value, own, own_pieces = ARGV[i], ARGV[i + 1], wanted, pieces
    if sub(name, 1, 4) == 'not:' then name, own, own_pieces = sub(name, 5), unwanted, unwanted_pieces end
    if sub(name, 1, 10) == 'attribute:' then own_pieces[#own_pieces + 1] = value else own[name] = value end
  end
  local passes, excluded = filter_test(now, wanted, pieces), filter_test(now, unwanted, unwanted_pieces)
  if not excluded then return passes end

  return function(ref, record)
    local fits = passes and passes(ref, record) or YES
    if fits == NO then return NO end
    return math.min(fits, YES - excluded(ref, record)) -- YES for NO, MAYBE for MAYBE
  end
end
