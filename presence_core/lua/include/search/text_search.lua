-- Whether a text has what is searched for, as text/search_text.py defines it. MAYBE where the client has to
-- decide: letters that are not known here, a second spelling ("mueller"), a phone number without its country code or by
-- its last digits.
local gmatch, match = string.gmatch, string.match
local MAX_WORDS, MAX_PARTS = 8, 8
local SECOND_SPELLING = {'\195[\132\133\150\152\156\164\165\182\184\188]', '\204[\136\138]'} -- ä å ö ø ü

local letters
local function spell(value) -- nil where letters are not known here
  if not find(value, '[\128-\255]') then return lower(value) end
  local spelling = fold(value)
  if spelling then
    letters = letters or LETTER_TABLE
    spelling = gsub(spelling, '[\194-\223][\128-\191]', letters)
  end
  return spelling
end

local function compact(spelling) return (gsub(spelling, '[^0-9a-z\128-\255]+', '')) end

-- Whether the second spelling of a text may have a needle that the first one does not have; a phone number is also
-- found without its "(0)", and an email address without its tag.
local second_counts = true -- some needle has ae, oe, ue or aa
local function has_second_spelling(value)
  return second_counts and (find(value, SECOND_SPELLING[1]) or find(value, SECOND_SPELLING[2]))
         or find(value, '(0)', 1, true) or find(value, '%+[^@ \n]*@')
end

-- The places in the text without separators where a search may begin.
local function start_places(spelling)
  local places, at, words, is_due, left = {}, 1, 0, false, MAX_PARTS
  for word in gmatch(spelling, '[^ ]+') do
    words = words + 1
    local counts = words <= MAX_WORDS
    is_due = is_due or counts
    local front, domain = match(word, '^(.*)@(.*)$')
    for part in gmatch(front or word, '[0-9a-z\128-\255]+') do
      if is_due or (counts and left > 0) then places[at] = true end
      if counts and not is_due then left = left - 1 end
      is_due, at = false, at + #part
    end
    local begins = is_due or counts
    for part in gmatch(domain or '', '[0-9a-z\128-\255]+') do
      if begins then places[at] = true end
      is_due, begins, at = false, false, at + #part
    end
  end
  return places
end

-- Whether a text begins with `needle` at one of these places: NO, YES, or MAYBE where it has it elsewhere.
local function has_at_start(text, needle, places)
  local at = find(text, needle, 1, true)
  if not at then return NO end
  while at do
    if places[at] then return YES end
    at = find(text, needle, at + 1, true)
  end
  return MAYBE
end

local function has_literal(spelling, literal)
  if literal == '' or find(spelling, literal, 1, true) then return YES end
  return find(literal, ' ', 1, true) and MAYBE or NO -- white space that folding makes single
end

-- Whether a name or an alias has one of the needles, {text, literal, words} each. A name may have the words of a needle
-- in any order.
local function search_line(line, needles, is_name)
  local spelling = spell(line)
  if not spelling then return MAYBE end
  local text, places, best = compact(spelling), nil, NO
  local function check(needle)
    if not find(text, needle, 1, true) then return NO end
    places = places or start_places(spelling)
    local fits = has_at_start(text, needle, places)
    if fits == MAYBE and not find(spelling, '^[-+0-9 ()./]+$') then return NO end -- no phone number
    return fits
  end
  for _, needle in ipairs(needles) do
    local wanted, literal, words = needle[1], needle[2], needle[3]
    local fits = math.min(has_literal(spelling, literal), wanted == '' and YES or check(wanted))
    if is_name and fits < YES and #words > 0 then
      local worst = YES
      for _, word in ipairs(words) do worst = math.min(worst, check(word)) end
      fits = math.max(fits, worst)
    end
    if fits == YES then return YES end
    best = math.max(best, fits)
  end
  return has_second_spelling(line) and MAYBE or best
end

-- For each needle, a pattern of its beginning in which separators may stand between the letters; of words in any order,
-- of the first word.
local MAX_LETTERS = 12
local function needle_patterns(needles)
  local patterns = {}
  second_counts = false
  for _, needle in ipairs(needles) do
    second_counts = second_counts or find(needle[1] .. table.concat(needle[3], ' '), '[aou]e') ~= nil
                    or find(needle[1] .. table.concat(needle[3], ' '), 'aa', 1, true) ~= nil
    for _, text in ipairs({needle[1], needle[3][1]}) do
      local letters = {}
      for letter in gmatch(sub(text, 1, MAX_LETTERS), '.') do letters[#letters + 1] = letter end
      patterns[#patterns + 1] = table.concat(letters, '[^0-9a-z\128-\255\n]*')
    end
  end
  return patterns
end

-- Whether some of these lines may have a needle: most sessions do not, and this says so at once.
local function may_have(lines, patterns)
  local spelling = spell(lines)
  if not spelling or has_second_spelling(lines) then return true end
  for i = 1, #patterns do
    if find(spelling, patterns[i]) then return true end
  end
  return false
end

-- Whether a uid has one of the needles.
local function search_uid(uid, needles)
  local spelling = spell(uid)
  if not spelling then return MAYBE end
  local text, best = compact(spelling), NO
  local digits = match(text, '^[^0-9]+()[0-9]+$')
  for _, needle in ipairs(needles) do
    local wanted, literal = needle[1], needle[2]
    local begins = sub(text, 1, #wanted) == wanted or (digits and sub(text, digits, digits + #wanted - 1) == wanted)
    local fits = math.min(has_literal(spelling, literal), begins and YES or NO)
    if fits == NO and find(uid, '[@+0]') and find(text, wanted, 1, true) then fits = MAYBE end -- as an alias
    if fits == YES then return YES end
    best = math.max(best, fits)
  end
  return has_second_spelling(uid) and MAYBE or best
end
