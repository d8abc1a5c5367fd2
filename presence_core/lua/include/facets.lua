-- How many live sessions have which device, app, browser, …: counters in a hash, changed by the scripts that begin and
-- bury sessions. Its fields: 'c' or 'a' and a label id (what the site said of its client; the user agent), 'C' or 'A' and
-- the text itself where the label table was full, 'x', a declared attribute's name, '\0', its value as JSON.
-- '-' is a long text: it makes the hash a table from the start, where a list of some hundred fields would be searched
-- from end to end at each login (measured: 3 to 5 µs).
-- While reindex counts anew, `recount` has the new counters and `counted` the sessions that are in them already.

local MOST_VALUES = 10000

-- Declared attributes are meant to have few values. Past so many counters a new value counts as "(other)".
local function declared(key, members)
  local size = members ~= '' and redis.pcall('HLEN', key)
  if type(size) ~= 'number' or size < MOST_VALUES then return members end
  return (string.gsub(members, '[^\n]+', function(member)
    if redis.call('HEXISTS', key, 'x' .. member) == 0 then return string.match(member, '^%Z*') .. '\0"(other)"' end
  end))
end

local PAD = string.rep(' ', 65)

-- row: the values of BURIED.
local function add_facets(sums, row, by)
  local client, agent = string.sub(row[2], 33, 36), string.sub(row[2], 37, 40)
  client = client == INLINE and 'C' .. (row[6] or '') or 'c' .. client
  agent = agent == INLINE and 'A' .. string.match(row[7] or '', '^[^\n]*\n?[^\n]*') or 'a' .. agent
  sums[client] = (sums[client] or 0) + by
  sums[agent] = (sums[agent] or 0) + by
  if row[8] and row[8] ~= '' then
    for member in string.gmatch(row[8], '[^\n]+') do sums['x' .. member] = (sums['x' .. member] or 0) + by end
  end
end

-- Best effort where another program's value stands in the key's place: no counter is a reason to hinder a login or end.
local function change_facets(key, sums)
  for member, by in pairs(sums) do
    local count = by ~= 0 and redis.pcall('HINCRBY', key, member, by)
    if type(count) == 'number' and count <= 0 then redis.call('HDEL', key, member) end
  end
end

-- Which of these refs the recount has in its counters (1), and takes them out.
local function counted_already(k, refs)
  local found = redis.pcall('SMISMEMBER', k.counted, unpack(refs))
  if found.err then return {} end
  for i, one in ipairs(found) do
    if one == 1 then redis.call('SREM', k.counted, refs[i]) end
  end
  return found
end

-- An address as the index of addresses has it: its family, its bytes.
local function indexed_address(core)
  local ip = string.sub(core, 41)
  return #ip == 4 and '4' .. ip or #ip == 16 and '6' .. ip or nil
end
