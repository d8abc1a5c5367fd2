-- The secrets that a rotate with a grace has replaced. Field 'p' of the record has the first 8 bytes of the present
-- digest, then of the last two, the latest first, the digest (16 bytes) and until when it is valid, ms (8). If the core
-- has another digest, as a version that does not know 'p' leaves it, all of 'p' is void.
-- Scripts name this include in the branch that needs it: to define a function takes time.
-- include: tokens/same_digest

-- Which former secret has this digest: 1 or 2, the latest first, if it is in its grace. Else nil, and the reply to it:
-- {OLD_SECRET} where its use is to be noted.
local function find_former(now, state, record, row, digest)
  local former = redis.call('HGET', record, 'p') or ''
  if string.sub(former, 1, 8) == string.sub(row[R.core], 17, 24) then
    for place = 1, math.floor((#former - 8) / 24) do
      local at = 24 * place - 15
      if same_digest(former, at, digest) then
        if now < struct.unpack('>I8', former, at + 16) then return place end
        local is_noted = bit.band(string.byte(row[R.odd] or '\0'), FLAG_OLD_TOKEN) > 0
        return nil, {state == LIVE and not is_noted and OLD_SECRET or UNKNOWN}
      end
    end
  end
  return nil, {UNKNOWN}
end
