-- Keep a text that staff wrote as long as tombstones that name it, and until a slow sweep has written them: half a day
-- to a day longer, so that a text that is used often is not written each time.
local function keep_text(key, id, text, keep)
  if id == '' then return end
  local seconds = tonumber(keep)
  if redis.call('TTL', key) < seconds + 43200 then redis.call('SET', key, text, 'EX', seconds + 86400) end
end
