-- Entries of the index of words that contain some texts.

-- What an entry must contain: texts, each behind a zero byte. nil for nothing.
local function read_pieces(text)
  if text == '' then return nil end
  local pieces = {}
  for piece in string.gmatch(text, '%Z+') do pieces[#pieces + 1] = piece end
  return pieces
end

-- Whether the text of an entry has all the pieces, or was cut: then the part that was cut off may have them.
local function may_contain(entry, pieces)
  local zero = nil
  for _, piece in ipairs(pieces) do
    local at = string.find(entry, piece, 2, true)
    if not at then
      if #entry < INDEX_CUT then return false end
      zero = zero or string.find(entry, '\0', 1, true) or 1
      if zero < INDEX_CUT then return false end
    else
      zero = zero or string.find(entry, '\0', 1, true) or 1
      if at + #piece > zero and zero < INDEX_CUT then return false end -- in the uid
    end
  end
  return true
end
