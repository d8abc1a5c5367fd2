-- What a filter asks of a record, given as names and values at the end of ARGV. They let through every session that may
-- match and none that surely does not: where folding needs more than letters of one and two bytes, the client decides,
-- by SessionFilter.matches, as it does in the end for all that are shown.
--   client, agent   the label ids that will do, four bytes each; client_not, agent_not: those that will not
--   from, to        first and last address of a block, each family and bytes
--   idle            ms that it was not seen, at least
--   prefix          at the start of a word of the name; contains: anywhere in it. Both folded
--   text            the same of uid, name or an alias; text_from, text_to: or an address
--   attribute:…     a piece of the attributes' JSON that there must be
local find, lower, gsub, sub = string.find, string.lower, string.gsub, string.sub
local fold_letters
local function fold(value) -- nil where letters are not known here; ideographs, of E4 to E9, stay as they are
  if not find(value, '[\128-\255]') then return lower(value) end
  if find(value, '[\224-\227\234-\255]') then return nil end
  fold_letters = fold_letters or FOLD_TABLE
  return lower((gsub(value, '[\194-\223][\128-\191]', fold_letters)))
end

local NO, MAYBE, YES = 0, 1, 2 -- MAYBE: the client has to look

-- Whether needle, folded, is in value, or at the start of one of its words. Most are not in it, so that is found out first.
local function has(value, needle, at_start)
  if not value or value == '' then return NO end
  local folded = fold(value)
  if not folded then return MAYBE end
  local spaced = find(needle, ' ', 1, true)
  if not spaced and not find(folded, needle, 1, true) then return NO end
  folded = gsub(folded, '[ \n]+', ' ')
  if not find(' ' .. folded, at_start and ' ' .. needle or needle, 1, true) then return NO end
  if spaced and find(value, '\n', 1, true) then return MAYBE end -- of two aliases, side by side
  if at_start and select(2, gsub(folded, ' ', ' ')) >= 8 then return MAYBE end -- only the first words count
  return YES
end

local one = {}
local function values(record, fields)
  if fields[2] then return redis.pcall('HMGET', record, unpack(fields)) end
  local value = redis.pcall('HGET', record, fields[1])
  one[1] = type(value) == 'string' and value
  return one
end

-- Answers the test: a function of a ref and the key of its record. nil: everything passes. It runs for every entry that is
-- looked at, so what is cheap and turns most away comes first, the rest of the record is read later, and nothing is
-- allocated on the way.
local function read_tests(now, first)
  local asked, pieces, any = {}, {}, false
  for i = first, #ARGV, 2 do
    any = true
    if sub(ARGV[i], 1, 10) == 'attribute:' then pieces[#pieces + 1] = ARGV[i + 1] else asked[ARGV[i]] = ARGV[i + 1] end
  end
  if not any then return end
  for _, name in ipairs({'client', 'agent'}) do
    if asked[name] then
      local ids = {[NO_LABEL] = NO} -- one that is in neither list, new or the record's own text, is left to the client
      for list, fits in pairs({[asked[name .. '_not']] = NO, [asked[name]] = YES}) do
        for i = 1, #list, 4 do ids[sub(list, i, i + 3)] = fits end
      end
      asked[name] = ids
    end
  end
  local seen = asked.idle and now - tonumber(asked.idle)
  local prefix, text, contains = asked.prefix, asked.text, asked.contains

  local function within(core, from, to)
    if not core then return false end
    if #from == 5 then -- IPv4: one number
      if #core ~= 44 then return false end
      local ip = struct.unpack('>I4', core, 41)
      return ip >= struct.unpack('>I4', from, 2) and ip <= struct.unpack('>I4', to, 2)
    end
    local ip = indexed_address(core)
    if not ip or #ip ~= #from then return false end
    for i = 1, #ip do -- byte by byte: Lua's < obeys the locale
      local p, q = string.byte(ip, i), string.byte(from, i)
      if p ~= q then
        if p < q then return false end
        break
      end
    end
    for i = 1, #ip do
      local p, q = string.byte(ip, i), string.byte(to, i)
      if p ~= q then return p < q end
    end
    return true
  end

  local stages, fields_of, checks_of = 0, {}, {}
  local function stage(fields, checks)
    if #checks > 0 then
      stages = stages + 1
      fields_of[stages], checks_of[stages] = fields, checks
    end
  end
  local checks = {}
  local function check(asks, act) if asks then checks[#checks + 1] = act end end

  for at, ids in pairs({[33] = asked.client, [37] = asked.agent}) do
    check(true, function(row) return row[1] and (ids[sub(row[1], at, at + 3)] or MAYBE) or NO end)
  end
  check(asked.from, function(row) return within(row[1], asked.from, asked.to) and YES or NO end)
  check(seen, function(row) return (tonumber(row[2] or 0) or 0) <= seen and YES or NO end)
  stage(seen and {'c', 's'} or {'c'}, checks)

  checks = {}
  check(prefix, function(row) return has(row[1], prefix, true) end)
  check(contains, function(row) return has(row[1], contains) end)
  stage({'n'}, checks)

  checks = {}
  for _, piece in ipairs(pieces) do
    check(true, function(row) return row[1] and find(row[1], piece, 1, true) and MAYBE or NO end)
  end
  stage({'x'}, checks)

  checks = {}
  check(text, function(row, ref)
    local best = has(row[1], text, true)
    if best < YES then best = math.max(best, has(row[2], text, true)) end
    if best == YES then return YES end
    local folded = fold(string.match(ref, '^(.*):') or '')
    if not folded then return MAYBE end
    if sub(folded, 1, #text) == text then return YES end
    if find(folded, ' ', 1, true) then best = MAYBE end -- white space that folding makes single
    return asked.text_from and within(row[3], asked.text_from, asked.text_to) and YES or best
  end)
  stage(asked.text_from and {'n', 'a', 'c'} or {'n', 'a'}, checks)

  return function(ref, record)
    local sure = YES
    for i = 1, stages do
      local row, tests = values(record, fields_of[i]), checks_of[i]
      for t = 1, #tests do
        local fits = tests[t](row, ref)
        if fits < sure then
          if fits == NO then return NO end
          sure = fits
        end
      end
    end
    return sure
  end
end
