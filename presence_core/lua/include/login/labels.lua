-- A text that many sessions share is kept once, in the shard's label table. The table has a limit, so that hostile
-- variety cannot fill it: past the limit, or where two texts have one id, the record has the text itself.
-- include: sessions/session_record

-- Replaces each id by INLINE where the record is to have the text, and each text by '' where it is not. Returns what is
-- to be added to the table: {id, text, …}.
local function share_labels(labels, ids, texts, limit)
  local new, known = {}, redis.call('HMGET', labels, ids[1], ids[2])
  for i = 1, 2 do
    if ids[i] == NO_LABEL or known[i] == texts[i] then
      texts[i] = ''
    elseif known[i] or new[1] == ids[i] or redis.call('HLEN', labels) >= limit then
      ids[i] = INLINE
    else
      new[#new + 1], new[#new + 2] = ids[i], texts[i]
      texts[i] = ''
    end
  end
  return new
end
