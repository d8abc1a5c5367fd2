-- The labels (login/labels.lua) of many sessions: the table is read once.

-- `given`: id, text, … Returns the text of each id that a session may name, and which of them the table does not have.
-- Missing are labels for which there is no room, or whose id has another text. nil where the table cannot be read.
local function read_labels(labels, given, limit)
  local label_ids, texts, new = {}, {}, {}
  for i = 1, #given, 2 do label_ids[#label_ids + 1] = given[i] end
  if #given == 0 then return texts, new end
  local known = redis.pcall('HMGET', labels, unpack(label_ids))
  if known.err then return nil end
  local room, is_given = nil, {}
  for i, id in ipairs(label_ids) do
    local text = given[2 * i]
    if is_given[id] then
      texts[id] = nil
    elseif known[i] == text then
      texts[id] = text
    elseif not known[i] then
      room = (room or limit - redis.call('HLEN', labels)) - 1
      if room >= 0 then texts[id], new[id] = text, text end
    end
    is_given[id] = true
  end
  return texts, new
end
