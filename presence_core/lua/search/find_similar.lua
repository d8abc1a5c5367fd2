#!lua flags=no-writes
-- Find entries of the index of words that begin with some words, of which each may have one mistake: a wrong, missing
-- or additional letter, or two that are swapped. First with one mistake in all; with two only where one finds nothing.
-- include: search/time_budget
-- KEYS: 1 words
-- ARGV: 1 kind of entry 2 what stands between two words 3 mistakes in all, at most 4 entries wanted
--       5 reads of the index, at most 6… each word, behind 1 where it may have a mistake, else 0
-- returns: {entries, each behind its number of mistakes; reads}
local index, kind, between = KEYS[1], ARGV[1], ARGV[2]
local most_mistakes, wanted, most_reads = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local MAX_SECONDS, OF_EACH = 0.005, 3
local sub, find = string.sub, string.find

local words = {} -- of each: its letters, whether it may have a mistake, and the text from each letter on
for i = 6, #ARGV do
  local word = {may = sub(ARGV[i], 1, 1) == '1', rest = {}}
  for letter in string.gmatch(sub(ARGV[i], 2), '[%z\1-\127\194-\244][\128-\191]*') do word[#word + 1] = letter end
  word.rest[#word + 1], word.rest[#word + 2] = '', ''
  for at = #word, 1, -1 do word.rest[at] = word[at] .. word.rest[at + 1] end
  words[#words + 1] = word
end

local reads, firsts, is_over = 0, {}, false
local function entries(prefix, low, most)
  reads = reads + 1
  if reads >= most_reads or (reads % 50 == 0 and seconds_used(reads) > MAX_SECONDS) then is_over = true end
  return redis.call('ZRANGE', index, low, '(' .. prefix .. '\255', 'BYLEX', 'LIMIT', 0, most)
end

-- Whether some entry begins so.
local function begins(prefix)
  if firsts[prefix] == nil then firsts[prefix] = entries(prefix, '[' .. prefix, 1)[1] or false end
  return firsts[prefix]
end

-- The letters with which entries go on behind a prefix.
local function letters_behind(prefix)
  local found, low = {}, '[' .. prefix .. '\3' -- an entry's parts are separated by bytes below
  while not is_over do
    local entry = entries(prefix, low, 1)[1]
    local letter = entry and string.match(entry, '^[^\128-\191][\128-\191]*', #prefix + 1)
    if not letter then break end
    found[#found + 1] = letter
    low = '(' .. prefix .. letter .. '\255'
  end
  return found
end

local found, known, seen, begin_word = {}, {}, {}, nil

local function take(prefix, mistakes)
  for _, entry in ipairs(entries(prefix, '[' .. prefix, OF_EACH)) do
    if not known[entry] and #found < 2 * wanted then
      known[entry] = true
      found[#found + 1], found[#found + 2] = mistakes, entry
    end
  end
end

-- Go on behind a word that was found; each place only once.
local function end_word(prefix, number, mistakes, allowed)
  local place = number .. ' ' .. allowed .. ' ' .. prefix
  if is_over or seen[place] or not begins(prefix) then return end
  seen[place] = true
  if number == #words then
    if mistakes > 0 then take(prefix, mistakes) end
  else
    begin_word(prefix .. between, number + 1, mistakes, allowed)
  end
end

-- Cheap mistakes come first, and behind them those that need all letters, the first letter of a word last.
begin_word = function(prefix, number, mistakes, allowed)
  local word = words[number]
  end_word(prefix .. word.rest[1], number, mistakes, allowed)
  if not word.may or mistakes == allowed then return end
  local before = {prefix} -- that entries have: the prefix and the first letters of the word
  while #before <= #word and begins(before[#before] .. word[#before]) do
    before[#before + 1] = before[#before] .. word[#before]
  end
  local function with_mistake(text) end_word(text, number, mistakes + 1, allowed) end
  for at = 1, math.min(#before, #word) do
    if at < #word then with_mistake(before[at] .. word[at + 1] .. word[at] .. word.rest[at + 2]) end
    with_mistake(before[at] .. word.rest[at + 1])
  end
  for at = math.min(#before, #word), 1, -1 do
    for _, letter in ipairs(letters_behind(before[at])) do
      if letter ~= word[at] then
        with_mistake(before[at] .. letter .. word.rest[at + 1])
        with_mistake(before[at] .. letter .. word.rest[at])
      end
    end
  end
end

for allowed = 1, most_mistakes do
  if #found == 0 and not is_over then begin_word(kind, 1, 0, allowed) end
end
return {found, reads}
