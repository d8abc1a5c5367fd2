-- How many live sessions have which device, app, browser, …: counters in a hash, changed by the scripts that begin and
-- end sessions. Its fields:
--   'c' or 'a' and a label id   what the site said of its client; the user agent
--   'C' or 'A' and the text     the same where the label table was full
--   'x', name, '\0', JSON       a declared attribute and its value
--   'k' and a country, 'n' and the number of a network: the place of the login
--   '-' and a long text         makes the hash a hash table from the start. A listpack of some hundred fields would be
--                               searched from end to end at each login (measured: 3 to 5 µs)
-- While facets are counted again, `recount` has the new counters, and `counted` the sessions that are in them already.
-- include: sessions/packed_core

local MAX_VALUES = 10000
local PAD = string.rep(' ', 65)
local BY_ONE = {[1] = '1', [-1] = '-1'} -- a number is converted at each call

-- Declared attributes should have few values. Past MAX_VALUES counters a new value counts as "(other)".
local function declared_members(key, members)
  local size = members ~= '' and redis.pcall('HLEN', key)
  if type(size) ~= 'number' or size < MAX_VALUES then return members end
  return (string.gsub(members, '[^\n]+', function(member)
    if redis.call('HEXISTS', key, 'x' .. member) == 0 then return string.match(member, '^%Z*') .. '\0"(other)"' end
  end))
end

-- Add `by` to the sums of a record's facets. `row`: its values, at their places.
local function add_facets(sums, row, by)
  local client, agent = string.sub(row[R.core], 33, 36), string.sub(row[R.core], 37, 40)
  client = client == INLINE and 'C' .. (row[R.client] or '') or 'c' .. client
  agent = agent == INLINE and 'A' .. string.match(row[R.agent] or '', '^[^\n]*\n?[^\n]*') or 'a' .. agent
  sums[client] = (sums[client] or 0) + by
  sums[agent] = (sums[agent] or 0) + by
  if row[R.place] then
    local country, network = string.match(row[R.place], '^([^\n]*)\n([^\n]*)')
    if country and country ~= '' then sums['k' .. country] = (sums['k' .. country] or 0) + by end
    if network and network ~= '' then sums['n' .. network] = (sums['n' .. network] or 0) + by end
  end
  if row[R.declared] and row[R.declared] ~= '' then
    for member in string.gmatch(row[R.declared], '[^\n]+') do sums['x' .. member] = (sums['x' .. member] or 0) + by end
  end
end

-- Change the counters by these sums. A key of a foreign type is left as it is: it must stop no login and no end.
local function change_facets(key, sums)
  for member, by in pairs(sums) do
    local count = by ~= 0 and redis.pcall('HINCRBY', key, member, BY_ONE[by] or by)
    if type(count) == 'number' and count <= 0 then redis.call('HDEL', key, member) end
  end
end
