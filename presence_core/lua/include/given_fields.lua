-- Add the names and values that are given to a flat list, {name, value, …}: those that are neither '' nor false.
local function add_given(list, values)
  for name, value in pairs(values) do
    if value and value ~= '' then
      list[#list + 1], list[#list + 2] = name, value
    end
  end
  return list
end
