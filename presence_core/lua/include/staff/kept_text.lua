-- Keep a text that staff wrote as long as tombstones that name it, and until a slow sweep has written them.
local function keep_text(key, id, text, keep)
  if id ~= '' then redis.call('SET', key, text, 'EX', math.max(tonumber(keep) + 86400, redis.call('TTL', key))) end
end
