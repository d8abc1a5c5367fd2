#!lua flags=allow-oom
-- Everybody out: sessions that began up to a watermark are dead from here on, to every reader. Sweeps take them off the
-- lists. The watermark only rises.
-- include: time
-- KEYS: 1 meta 2 sessions 3 note 4 message 5 audit
-- ARGV: 1 now|'' 2 policy's audit cap 3 watermark, ms: the same for all shards, so it may be ahead of this one's clock
--       4 by 5 note id 6 note 7 message id|'' 8 message
--       9 seconds that the texts are kept 10 tell 0|1: the audit has it once
-- returns: {now, watermark, sessions in the list that it kills}
local now, upto = clock(ARGV[1]), tonumber(ARGV[3])
redis.call('XLEN', KEYS[5])
local before = tonumber(redis.call('HGET', KEYS[1], 'revoked') or -1)
if upto > before then
  redis.call('HSET', KEYS[1], 'revoked', ms(upto), 'revoked_at', ms(now), 'revoked_by', ARGV[4], 'revoked_note', ARGV[5],
             'revoked_message', ARGV[7])
  local function keep(key, id, text) -- as long as tombstones that name it, and until a slow sweep has written them
    if id ~= '' then redis.call('SET', key, text, 'EX', math.max(tonumber(ARGV[9]) + 86400, redis.call('TTL', key))) end
  end
  keep(KEYS[3], ARGV[5], ARGV[6])
  keep(KEYS[4], ARGV[7], ARGV[8])
end
local killed = redis.call('ZCOUNT', KEYS[2], before < upto and '(' .. ms(before) or '-inf', ms(math.max(upto, before)))
if ARGV[10] == '1' then
  redis.call('XADD', KEYS[5], 'MAXLEN', '~', ARGV[2], '*', 'at', ms(now), 'by', ARGV[4], 'what', 'revoke_before', 'uid', '',
             'session', '', 'reason', ARGV[6], 'message', ARGV[8], 'ticket', '', 'until', ms(upto + 1))
end
return {now, upto, killed}
