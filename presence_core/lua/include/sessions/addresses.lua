-- The addresses of a session: that of its login, at the end of the core, and the latest, field 'i', where it differs.

-- An address as the index of addresses has it, its family and its bytes; nil for none.
local function indexed_address(ip) return #ip == 4 and '4' .. ip or #ip == 16 and '6' .. ip or nil end

-- The entries of a session in that index: one or two, or none.
local function address_entries(core, latest, ref)
  local entries = {}
  for _, ip in ipairs({string.sub(core, 41), latest or ''}) do
    local address = indexed_address(ip)
    if address then entries[#entries + 1] = address .. ref end
  end
  return entries
end
