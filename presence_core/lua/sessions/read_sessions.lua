#!lua flags=no-writes
-- Read a user's sessions: the given ones, else all that the user's SET names.
-- include: sessions/session_state
-- include: sessions/label_texts
-- KEYS: 1 user's live ids 2 sessions 3 closing 4 labels 5 meta (the keys of records are derived: this script only
--       reads)
-- ARGV: 1 now|'' 2 uid 3 prefix of record keys 4… sids
-- returns: {{sid, state, row, how, …}, {label id, text, …}}
local live, sessions, closing, labels, meta = unpack(KEYS)
local now, uid, prefix, sids = clock(ARGV[1]), ARGV[2], ARGV[3], {unpack(ARGV, 4)}
local found = {}
if #sids == 0 then sids = redis.call('SMEMBERS', live) end
for _, sid in ipairs(sids) do
  local ref = uid .. ':' .. sid
  local state, row, how = state_of(now, sessions, closing, meta, ref, prefix .. ref)
  if row[R.core] then note_labels(row[R.core]) end
  local n = #found
  found[n + 1], found[n + 2], found[n + 3], found[n + 4] = sid, state, row, how or {}
end
return {found, label_texts(labels)}
