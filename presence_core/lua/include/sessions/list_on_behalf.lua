-- include: clock
-- List a session on behalf of its user for search/walk_users.lua, which finds all others by `users`. The entry stays
-- until the absolute deadline, and the key until the last one, so no end has to remove it. Nothing here fails.
local function list_on_behalf(on_behalf, policy, now, ref, deadline)
  local over = redis.pcall('ZRANGE', on_behalf, '-inf', ms(now), 'BYSCORE', 'LIMIT', 0, 1000)
  if over.err then return end -- a foreign type
  if #over > 0 then redis.call('ZREM', on_behalf, unpack(over)) end
  redis.call('ZADD', on_behalf, ms(deadline), ref)
  local last = redis.call('ZRANGE', on_behalf, -1, -1, 'WITHSCORES')[2]
  if policy.ttl then redis.call('PEXPIREAT', on_behalf, ms(tonumber(last))) end
end
