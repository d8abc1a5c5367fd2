-- The addresses of a session: that of its login, at the end of the core, and the latest, field 'i', where it differs.

-- An address as the index of addresses has it, its family and its bytes; nil for none.
local function indexed_address(ip) return #ip == 4 and '4' .. ip or #ip == 16 and '6' .. ip or nil end

-- The entries of a session in that index: one or two, or none. They are added to `entries`, if that is given.
local function address_entries(core, latest, ref, entries)
  entries = entries or {}
  local at_login, now_at = indexed_address(string.sub(core, 41)), latest and indexed_address(latest)
  if at_login then entries[#entries + 1] = at_login .. ref end
  if now_at then entries[#entries + 1] = now_at .. ref end
  return entries
end
