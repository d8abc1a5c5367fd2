-- Note a sign-in that failed, in a row for each person, reason and address.
-- `failed`, ZSET: ref of a row (who:why-address in hex) → its last failure, ms.
-- `rows`, HASH of one person or name: why-address → first and last failure, ms (8 bytes each), count (4), then details
-- in lines; '#': guesses in all; '=': how many of them there had been at the last login.
-- `networks`, HASH, for an hour: network → its failures and the rows that they began.
-- A flood changes no other row. What is beyond a limit is counted, and has no row. There are limits for the rows of an
-- hour and of a day, those that a network begins in an hour, the addresses of a person, and the networks.
-- include: clock
-- include: key_types
local IS_GUESS = {GUESS_REASONS}
local MANY = MANY_GUESSES
local MOST_ADDRESSES = 10 -- of one person
local ROW = '>I8I8I4'
local HOUR = 3600000

-- What the client gives of a failure: seconds to keep it, four limits, then address and network in hex, and details.
local function read_failure(packed)
  local keep, hour_rows, day_rows, network_rows, most_networks, at = struct.unpack('>I4I4I4I4I4', packed)
  local ip, network, details = string.match(string.sub(packed, at), '^(%x*)\n(%x*)\n(.*)$')
  return {keep = keep, hour_rows = hour_rows, day_rows = day_rows, network_rows = network_rows,
          most_networks = most_networks, ip = ip, network = network, details = details}
end

-- The rows of a person by name; how many of them are still kept; and the names of the others.
local function read_rows(rows, oldest, latest)
  local flat, by_name, number, outdated = redis.call('HGETALL', rows), {}, 0, {}
  for i = 1, #flat, 2 do
    local name, row = flat[i], flat[i + 1]
    if #name > 1 and #row >= struct.size(ROW) then
      local _, last = struct.unpack(ROW, row)
      if last < oldest or last > latest then
        outdated[#outdated + 1] = name
      else
        by_name[name], number = row, number + 1
      end
    end
  end
  return by_name, number, outdated
end

-- What the network of a failure has in this hour: {network, failures, rows that they began}. '' is that of addresses
-- that are not known, and of all networks beyond the limit.
local function read_network(networks, failure)
  local network, number = failure.network, redis.call('HLEN', networks)
  local stored = redis.call('HGET', networks, network)
  if not stored and number >= failure.most_networks then
    network = ''
    stored = redis.call('HGET', networks, network)
  end
  local count, begun = string.match(stored or '', '^(%d+) (%d+)$')
  return {name = network, count = tonumber(count or 0), begun = tonumber(begun or 0)}
end

-- Note a failure of `who`, a uid or the name of a text. `rule`: what block rule refused it, for people, or ''.
local function note_failure(failed, rows, networks, totals, now, who, why, failure, rule)
  local oldest, latest = now - failure.keep * 1000, now + HOUR -- later: from a time when the clock was ahead
  local by_name, number, outdated = read_rows(rows, oldest, latest)
  local network = read_network(networks, failure)
  local name = why .. '-' .. failure.ip
  if not by_name[name] and number >= MOST_ADDRESSES then name = why .. '-' end
  local old = by_name[name]
  local most_begun = network.name == '' and failure.hour_rows or failure.network_rows
  local has_row = old or network.begun < most_begun
                         and redis.call('ZCOUNT', failed, '(' .. ms(now - HOUR), ms(latest)) < failure.hour_rows
                         and redis.call('ZCOUNT', failed, '(' .. ms(now - 24 * HOUR), ms(latest)) < failure.day_rows
  local removed = redis.call('ZRANGE', failed, '-inf', '(' .. ms(oldest), 'BYSCORE', 'LIMIT', 0, 20)
  local too_late = redis.call('ZRANGE', failed, '(' .. ms(latest), '+inf', 'BYSCORE', 'LIMIT', 0, 20)
  for _, ref in ipairs(too_late) do removed[#removed + 1] = ref end

  redis.pcall('HINCRBY', totals, 'failed', 1) -- pcall: the field may be no number, from another program
  local begun = network.begun + (has_row and not old and 1 or 0)
  redis.call('HSET', networks, network.name, network.count + 1 .. ' ' .. begun)
  redis.call('EXPIRE', networks, HOUR / 1000, 'LT')
  for _, other in ipairs(outdated) do removed[#removed + 1] = who .. ':' .. other end
  if #removed > 0 then redis.call('ZREM', failed, unpack(removed)) end
  if #outdated > 0 then redis.call('HDEL', rows, unpack(outdated)) end
  if has_row then
    local first, _, count = struct.unpack(ROW, old or struct.pack(ROW, now, now, 0))
    local times = struct.pack(ROW, first, now, math.min(count + 1, 4294967295))
    redis.call('HSET', rows, name, times .. failure.details .. '\n' .. rule)
    redis.call('ZADD', failed, ms(now), who .. ':' .. name)
    redis.call('EXPIRE', failed, failure.keep)
  end
  if has_row or number > 0 then
    if IS_GUESS[why] then redis.pcall('HINCRBY', rows, '#', 1) end
    redis.call('EXPIRE', rows, failure.keep)
  end
end

-- A login of the person begins: how many guesses there were since the login before it. The next are counted from here.
local function take_guesses(rows)
  local counted = redis.pcall('HMGET', rows, '#', '=')
  local guesses = not counted.err and tonumber(counted[1] or nil)
  if not guesses then return 0 end
  local before = tonumber(counted[2] or nil) or 0
  if guesses ~= before then redis.call('HSET', rows, '=', ms(guesses)) end
  return math.max(0, guesses - before)
end
