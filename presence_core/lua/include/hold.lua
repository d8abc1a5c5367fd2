-- A hold on a user's logins, in every script that writes or judges one. Types are checked before; nothing fails.
-- The HASH: by, reason, message, ticket, at, until (ms; '' for no end). Whether it still holds is judged by `until`;
-- the TTL only clears away, a minute later, and is left off where keys with a TTL may be evicted (record_ttl=False).

-- Until when, ms as text, given from when and for how many seconds ('' for no end).
local function held_until(at, seconds) return seconds == '' and '' or ms(at + tonumber(seconds) * 1000) end

local function write_hold(policy, block, blocks, uid, at, ends, by, reason, message, ticket)
  redis.call('UNLINK', block)
  redis.call('HSET', block, 'by', by, 'reason', reason, 'message', message, 'ticket', ticket, 'at', ms(at),
             'until', ends)
  if policy.ttl and ends ~= '' then redis.call('PEXPIREAT', block, ms(tonumber(ends) + 60000)) end
  redis.call('ZADD', blocks, ms(at), uid)
end

-- Given the value of `until`. One that is no number is '' or not ours: on the safe side, it has no end.
local function is_held(now, ends) return ends and now < (tonumber(ends) or math.huge) end
