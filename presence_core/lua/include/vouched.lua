-- Whether a worker found this shard's clock in order a short while ago, by that clock (vouch.lua). Only then does a look
-- end what is past its deadline: the end is final, and a clock that jumped must end no active visitor.
local function vouched(now, meta)
  local span = redis.call('HMGET', meta, 'good_from', 'good_until')
  local from, till = tonumber(span[1] or ''), tonumber(span[2] or '')
  return from and till and from <= now and now <= till
end
