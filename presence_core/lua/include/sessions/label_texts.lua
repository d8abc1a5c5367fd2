-- Collects the label ids that rows name, and answers {id, text, id, text, …}: each long text travels once.
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
local function label_texts(key)
  local out = {}
  if #label_ids == 0 then return out end
  local texts = redis.pcall('HMGET', key, unpack(label_ids)) -- a foreign type: nothing is known, nobody is turned away
  for i, id in ipairs(label_ids) do
    out[2 * i - 1] = id
    out[2 * i] = texts[i] or false
  end
  return out
end
