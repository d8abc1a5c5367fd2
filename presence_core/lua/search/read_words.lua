#!lua flags=no-writes
-- Read those entries of a range of the index of words that contain some texts.
-- include: search/time_budget
-- include: search/word_pieces
-- KEYS: 1 words
-- ARGV: 1 range's lower end 2 upper end 3 what an entry must contain, each behind a zero byte|'' 4 entries wanted
--       5 entries to read, at most
-- returns: {{entries}, lower end of the rest|'', entries read}
local words, low, high = KEYS[1], ARGV[1], ARGV[2]
local pieces, wanted, most = read_pieces(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local STEP, MAX_SECONDS = 500, 0.005
local found, read = {}, 0
repeat
  local step = math.min(STEP, most - read)
  local entries = redis.call('ZRANGE', words, low, high, 'BYLEX', 'LIMIT', 0, step)
  local done = 0
  for i = 1, #entries do
    local entry = entries[i]
    done = i
    if not pieces or may_contain(entry, pieces) then
      found[#found + 1] = entry
    end
    if #found >= wanted then break end
  end
  read = read + done
  low = (done < #entries or #entries == step) and '(' .. entries[done] or ''
until low == '' or #found >= wanted or read >= most or seconds_used(read) > MAX_SECONDS
return {found, low, read}
