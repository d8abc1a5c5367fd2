-- The facts of an audit entry, as models/audit.py reads them. Each argument is {code, name, value, …}: in
-- this order, so that equal facts are equal texts. A value that is false is left out.
local function write_facts(...)
  local facts = {}
  for i, fact in ipairs({...}) do
    local values = {}
    for j = 2, #fact, 2 do
      if fact[j + 1] then values[#values + 1] = cjson.encode(fact[j]) .. ':' .. cjson.encode(fact[j + 1]) end
    end
    facts[i] = '[' .. cjson.encode(fact[1]) .. ',{' .. table.concat(values, ',') .. '}]'
  end
  return '[' .. table.concat(facts, ',') .. ']'
end
