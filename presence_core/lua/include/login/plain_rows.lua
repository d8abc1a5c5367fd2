-- Which logins need no decision: a new id, a user below the limit, and nothing that refuses the login.
-- include: clock
-- include: staff/block_rules
-- include: login/new_times
-- include: sessions/packed_core
-- include: login/label_table

-- The rows as sessions/begin_sessions.lua gets them: `at` is the place of the first argument, `first` that of the first
-- key. T:session:<ref> is one colon longer than T:sessions.
local function read_rows(sessions, at, first)
  local rows = {}
  for key = first, #KEYS, 3 do
    local core, login_at, seen_at, id_digest, methods, declared, place, fields = unpack(ARGV, at, at + 7)
    local last_field = at + 7 + tonumber(fields)
    local last_word = last_field + 1 + tonumber(ARGV[last_field + 1])
    local user, record = KEYS[key], KEYS[key + 1]
    rows[#rows + 1] = {
      user = user, record = record, block = KEYS[key + 2], uid = string.sub(user, #sessions - 2),
      ref = string.sub(record, #sessions + 1), core = core, login_at = login_at, seen_at = seen_at,
      id_digest = id_digest, methods = methods, declared = declared, place = place,
      first_field = at + 8, last_field = last_field, first_word = last_field + 2, last_word = last_word}
    at = last_word + 1
  end
  return rows
end

-- Keep the rows that need no decision; a later row of the same user stays behind the one that does. `known`: what was
-- read of all, {listed: a list by row; revoked, floor, rules, block_rules, texts, new_labels}. Returns them with login,
-- seen, deadline and expiry of the record, ms; what they add to the table of labels; and the reply.
local function choose_plain(rows, now, most_sessions, known)
  local plain, reply, left, taken, numbers, labels, added = {}, {}, {}, {}, {}, {}, {}

  local function is_plain(row)
    if left[row.uid] then return false end
    local number = numbers[row.uid]
    local is_only = not number and redis.call('EXISTS', row.record, row.block, row.user) == 0
    if not is_only and redis.call('EXISTS', row.record, row.block) > 0 then return false end
    number = number or (is_only and 0 or redis.pcall('SCARD', row.user))
    if type(number) ~= 'number' or number >= most_sessions then return false end
    numbers[row.uid] = number
    row.client, row.agent = string.sub(row.core, 25, 28), string.sub(row.core, 29, 32)
    local client = known.texts[row.client]
    if not (client or row.client == NO_LABEL) or not (known.texts[row.agent] or row.agent == NO_LABEL) then
      return false
    end
    return not (known.rules and refusing_rule(now, known.block_rules, known.rules, string.sub(row.core, 33),
                                              client or '', row.place))
  end

  for i, row in ipairs(rows) do
    local idle, absolute = struct.unpack('>I4I4', row.core)
    if not known.listed[i] and not taken[row.ref] and is_plain(row) then
      row.login, row.seen = new_times(now, {login = row.login_at, seen = row.seen_at, idle = idle, absolute = absolute},
                                      known.revoked, known.floor)
    end
    if not row.login then
      left[row.uid] = true
      reply[i] = struct.pack('>I8I8', 0, 0)
    else
      reply[i] = struct.pack('>I8I8', row.login, row.seen)
      row.deadline = math.min(row.seen + idle * 1000, row.login + absolute * 1000)
      row.expiry = row.login + (absolute + 86400) * 1000
      row.is_first = numbers[row.uid] == 0
      numbers[row.uid], taken[row.ref] = numbers[row.uid] + 1, true
      plain[#plain + 1] = row
      for _, id in ipairs({row.client, row.agent}) do
        if known.new_labels[id] and not added[id] then
          added[id] = true
          labels[#labels + 1], labels[#labels + 2] = id, known.new_labels[id]
        end
      end
    end
  end
  return plain, labels, table.concat(reply)
end
