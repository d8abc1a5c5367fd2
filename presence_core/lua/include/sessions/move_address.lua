-- The latest address was `before` and is `ip`: the entry of the address at login stays. Readers test every session, so
-- an index of a foreign type turns no visitor away. See addresses.lua; this runs only where the address has changed.
local function move_address(addresses, ref, at_login, before, ip)
  local function entry(address) return (#address == 4 and '4' or '6') .. address .. ref end
  if before ~= at_login then redis.pcall('ZREM', addresses, entry(before)) end
  if ip ~= at_login then redis.pcall('ZADD', addresses, 0, entry(ip)) end
end
