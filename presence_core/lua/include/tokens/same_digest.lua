-- Whether `packed` has this digest of a secret at a place, in time that does not depend on where the two differ. In a
-- core it is at 17.
local function same_digest(packed, at, digest)
  local a1, a2, a3, a4 = struct.unpack('>I4I4I4I4', packed, at)
  local b1, b2, b3, b4 = struct.unpack('>I4I4I4I4', digest)
  return bit.bor(bit.bxor(a1, b1), bit.bxor(a2, b2), bit.bxor(a3, b3), bit.bxor(a4, b4)) == 0
end
