#!lua flags=allow-oom
-- Sign everybody out: sessions that began up to a watermark are no longer live, for every reader at once. Sweeps take
-- them off the lists. The watermark only rises.
-- include: clock
-- include: staff/audit_entry
-- include: staff/kept_text
-- KEYS: 1 meta 2 sessions 3 note 4 message 5 audit
-- ARGV: 1 now|'' 2 policy's audit cap 3 watermark, ms: the same for all shards, so it may be ahead of this shard's
--       clock 4 by 5 note id 6 note 7 message id|'' 8 message 9 seconds that the texts are kept 10 id of the call,
--       on the shard that writes the audit entry|'': a call whose reply was lost is sent again, and writes one entry
-- returns: {now, watermark, sessions in the list that it ends}
local meta, sessions, note_key, message_key, audit = unpack(KEYS)
local given_now, audit_cap, given_upto, by, note_id, note, message_id, message, keep, call_id = unpack(ARGV, 1, ARGS)
local now, upto = clock(given_now), tonumber(given_upto)
redis.call('XLEN', audit)
local before = tonumber(redis.call('HGET', meta, 'revoked') or -1)
if upto > before then
  redis.call('HSET', meta, 'revoked', ms(upto), 'revoked_at', ms(now), 'revoked_by', by, 'revoked_note', note_id,
             'revoked_message', message_id)
  keep_text(note_key, note_id, note, keep)
  keep_text(message_key, message_id, message, keep)
end
local ended = redis.call('ZCOUNT', sessions, before < upto and '(' .. ms(before) or '-inf', ms(math.max(upto, before)))
if call_id ~= '' and redis.call('HGET', meta, 'revoked_call') ~= call_id then
  redis.call('HSET', meta, 'revoked_call', call_id)
  write_audit_entry(audit, audit_cap, ms(now), by, 'revoke_before', {reason = note, message = message},
                    'until', ms(upto + 1))
end
return {now, upto, ended}
