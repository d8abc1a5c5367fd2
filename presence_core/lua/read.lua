#!lua flags=no-writes
-- A user's sessions: those given, else all that the user's SET names.
-- include: time
-- include: record
-- include: labels
-- KEYS: 1 user's live ids 2 sessions 3 closing 4 labels 5 meta (records are derived from the prefix: this only reads)
-- ARGV: 1 now|'' 2 uid 3 prefix of record keys 4… sids
-- returns: {{sid, state, row, how, …}, {label id, text, …}}
local now, uid, prefix = clock(ARGV[1]), ARGV[2], ARGV[3]
local sids, out = {}, {}
for i = 4, #ARGV do sids[i - 3] = ARGV[i] end
if #sids == 0 then sids = redis.call('SMEMBERS', KEYS[1]) end
for _, sid in ipairs(sids) do
  local ref = uid .. ':' .. sid
  local state, row, how = state_of(now, KEYS[2], KEYS[3], KEYS[5], ref, prefix .. ref)
  if row[2] then note_labels(row[2]) end
  local n = #out
  out[n + 1], out[n + 2], out[n + 3], out[n + 4] = sid, state, row, how or {}
end
return {out, label_texts(KEYS[4])}
