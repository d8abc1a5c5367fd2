-- How a session ended, as `closing` has it: fields and values. Of a value that we have not written, only that the
-- session has ended: as `expired`, because its record says no more. `at`, ms: no later than that.
-- include: clock
local function noted_end(packed, at)
  local is_packed, how = pcall(cmsgpack.unpack, packed)
  local is_ours = is_packed and type(how) == 'table' and #how % 2 == 0 and tonumber(how[4])
    and ({IS_END_REASON})[how[2]]
  for i = 1, is_ours and #how or 0 do is_ours = is_ours and type(how[i]) == 'string' end
  return is_ours and how or {'e', 'expired', 'ea', ms(at), 'ec', 'lost'}
end
