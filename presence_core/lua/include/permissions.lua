-- A script that fails half-way rolls nothing back. So it asks first whether the user may run every command that it may
-- need: one may be forbidden by the ACL, or renamed away. `refusal`: the error to reply with, or nil.
local function refusal(names)
  local permits, key = redis.acl_check_cmd, KEYS[1]
  if not permits then return end -- a server that does not say
  local are_known, refused = pcall(function()
    for _, name in ipairs(names) do
      if not permits(name, key) then return name end
    end
  end)
  if are_known and not refused then return end
  for _, name in ipairs(names) do
    local is_known, is_permitted = true, false
    for _, other in ipairs(KEYS) do -- the ACL may permit it on some keys only
      if is_known and not is_permitted then
        is_known, is_permitted = pcall(permits, name, unpack(name == 'xinfo' and {'stream', other} or {other}))
      end
    end
    if not is_known then
      return redis.error_reply("NOPERM the server does not have the command '" .. name .. "', or has renamed it")
    elseif not is_permitted then
      return redis.error_reply("NOPERM this user has no permissions to run the '" .. name .. "' command")
    end
  end
end
