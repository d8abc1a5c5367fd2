-- The session that a script is asked about by `uid` and `sid`, with the digest of its secret, or '' (by its id): state,
-- row, how and core. A part of the script: it replies where there is no such session, or where the secret is wrong.
-- include: sessions/session_state
-- include: tokens/same_digest
local state, row, how = state_of(now, sessions, closing, meta, ref, record)
local core = row[R.core]
if not core then return {state} end
if state == UNKNOWN then return {UNKNOWN} end
if digest ~= '' and not same_digest(core, 17, digest) then
-- include: tokens/former_secrets
  local former, refused = find_former(now, state, record, row, digest)
  if not former then return refused end
end
