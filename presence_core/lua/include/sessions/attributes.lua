-- Attributes as a record has them: the JSON text of an object, without white space. Values stay text: decoded by Lua, a
-- number could lose digits, and an empty list would become an empty object.
local DEPTH = {['['] = 1, ['{'] = 1, [']'] = -1, ['}'] = -1}

-- The place behind a string that begins at `at`; nil where it has no end.
local function behind_string(text, at)
  at = string.find(text, '["\\]', at + 1)
  while at and string.sub(text, at, at) == '\\' do at = string.find(text, '["\\]', at + 2) end
  return at and at + 1
end

-- The place behind a value that begins at `at`: that of a comma, or of the object's end. nil where it has no end.
local function behind_value(text, at)
  local depth = 0
  at = string.find(text, '["%[%]{},]', at)
  while at do
    local sign = string.sub(text, at, at)
    if depth == 0 and (sign == ',' or sign == '}') then return at end
    depth = depth + (DEPTH[sign] or 0)
    at = sign == '"' and behind_string(text, at) or at + 1
    at = string.find(text, '["%[%]{},]', at)
  end
end

-- The names, quoted, in order, and the value of each. None where the text is not as we write it.
local function split_attributes(text)
  local names, values, at = {}, {}, 2
  while string.sub(text, at, at) == '"' do
    local colon = behind_string(text, at)
    local stop = colon and behind_value(text, colon + 1)
    if not stop then return {}, {} end
    local name = string.sub(text, at, colon - 1)
    names[#names + 1], values[name] = name, string.sub(text, colon + 1, stop - 1)
    at = stop + 1
  end
  return names, values
end

-- The text with these changes, {name, value, …}, '' for a value that is removed. '' where none is left.
local function merge_attributes(text, changes)
  local names, values = split_attributes(text)
  for i = 1, #changes, 2 do
    local name = changes[i]
    if not values[name] then names[#names + 1] = name end
    values[name] = changes[i + 1]
  end
  local merged = {}
  for _, name in ipairs(names) do
    if values[name] ~= '' then merged[#merged + 1] = name .. ':' .. values[name] end
  end
  return #merged > 0 and '{' .. table.concat(merged, ',') .. '}' or ''
end
