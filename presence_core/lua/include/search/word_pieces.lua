-- Entries of the index of words that contain some texts.

-- What an entry must contain: texts, each behind a zero byte. nil for nothing.
local function read_pieces(text)
  if text == '' then return nil end
  local pieces = {}
  for piece in string.gmatch(text, '%Z+') do pieces[#pieces + 1] = piece end
  return pieces
end

-- Whether the text of an entry has all the pieces, or lacks a part of the name, which may have them.
local find_text = string.find
local function may_contain(entry, pieces)
  local zero = nil
  for i = 1, #pieces do
    local at = find_text(entry, pieces[i], 2, true)
    zero = at and (zero or find_text(entry, '\0', 2, true) or 1)
    if not at or at + #pieces[i] > zero then -- it is nowhere, or in the uid
      return find_text(entry, IS_CUT, 2, true) ~= nil
    end
  end
  return true
end
