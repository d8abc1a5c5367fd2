-- The entries of a session in the index of identity providers: one for its session there and one for its user there,
-- each a kind, 16 characters of a digest, and the ref. `link`: field 'l' of the record.
local function idp_entry(kind, issuer, value)
  return kind .. string.sub(redis.sha1hex(issuer .. '\n' .. value), 1, 16)
end

-- At most two; none where there is no link.
local function idp_entries(link, ref)
  local issuer, subject, session = string.match(link or '', '^([^\n]*)\n([^\n]*)\n([^\n]*)$')
  local entries = {}
  if not issuer then return entries end
  if session ~= '' then entries[1] = idp_entry('s', issuer, session) .. ref end
  if subject ~= '' then entries[#entries + 1] = idp_entry('u', issuer, subject) .. ref end
  return entries
end
