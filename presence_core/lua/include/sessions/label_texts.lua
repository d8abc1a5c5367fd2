-- Collect the label ids of rows, then return {id, text, id, text, …}: each long text is sent once.
-- include: sessions/session_record
local label_ids, label_seen = {}, {}
local function note_labels(core)
  for at = 33, 37, 4 do
    local id = string.sub(core, at, at + 3)
    if id ~= NO_LABEL and id ~= INLINE and not label_seen[id] then
      label_seen[id] = true
      label_ids[#label_ids + 1] = id
    end
  end
end

local function label_texts(labels)
  local out = {}
  if #label_ids == 0 then return out end
  local texts = redis.pcall('HMGET', labels, unpack(label_ids)) -- of a foreign type: no text is known
  for i, id in ipairs(label_ids) do
    out[2 * i - 1] = id
    out[2 * i] = texts[i] or false
  end
  return out
end
