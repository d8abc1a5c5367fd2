-- Which logins need no decision: a new id, a user below the limit, and nothing that refuses the login.
-- include: clock
-- include: staff/block_rules
-- include: login/new_times
-- include: sessions/packed_core
-- include: login/label_table

-- The rows that need no decision; a later row of the same user stays behind the one that does. `refs`: of all rows.
-- `key`, `at`: the places of their first key and argument in sessions/begin_sessions.lua. `known`: what was read,
-- {listed: a list by row; revoked, floor, rules, block_rules, texts, new_labels}. Returns these rows; what they add to
-- the table of labels; and the reply.
local function choose_plain(refs, key, at, now, most_sessions, known)
  local plain, reply, left, taken, numbers, labels, added = {}, {}, {}, {}, {}, {}, {}
  local prefix = #KEYS[1] - 2 -- T:user:<uid> begins its uid here; T:sessions is KEYS[1]

  -- Whether the user may have one more session, before which they have `numbers[uid]`.
  local function has_room(uid)
    local user, record, block, failures = KEYS[key], KEYS[key + 1], KEYS[key + 2], KEYS[key + 3]
    local number = numbers[uid]
    local is_only = not number and redis.call('EXISTS', record, block, failures, user) == 0
    if not is_only and redis.call('EXISTS', record, block, failures) > 0 then return false end
    number = number or (is_only and 0 or redis.pcall('SCARD', user))
    if type(number) ~= 'number' or number >= most_sessions then return false end
    numbers[uid] = number
    return true
  end

  local function may_name(label) return label == NO_LABEL or known.texts[label] end

  local function note_label(label)
    if known.new_labels[label] and not added[label] then
      added[label] = true
      labels[#labels + 1], labels[#labels + 2] = label, known.new_labels[label]
    end
  end

  for i, ref in ipairs(refs) do
    local core, login_at, seen_at, id_digest, methods, declared, place, fields = unpack(ARGV, at, at + 7)
    local last_field = at + 7 + fields
    local uid, idle, absolute, _, client, agent = string.sub(KEYS[key], prefix), struct.unpack('>I4I4c16c4c4', core)
    local ip, login, seen = string.sub(core, 33), nil, nil
    if not known.listed[i] and not taken[ref] and not left[uid] and may_name(client) and may_name(agent)
        and has_room(uid) and not (known.rules and ip == '' and string.find(known.rules, '/', 1, true))
        and not (known.rules and refusing_rule(now, known.block_rules, known.rules, ip,
                                                                 known.texts[client] or '', place)) then
      login, seen = new_times(now, {login = login_at, seen = seen_at, idle = idle, absolute = absolute, idp_end = ''},
                              known.revoked, known.floor)
    end
    if login then
      plain[#plain + 1] = {
        key = key, uid = uid, ref = ref, core = struct.pack('>I8', login) .. core, login = login, seen = seen,
        idle = idle, absolute = absolute, ip = ip, is_first = numbers[uid] == 0, id_digest = id_digest,
        methods = methods, declared = declared, place = place, is_imported = login_at ~= '', first_field = at + 8,
        last_field = last_field}
      numbers[uid], taken[ref] = numbers[uid] + 1, true
      note_label(client)
      note_label(agent)
    else
      left[uid] = true
    end
    reply[i] = struct.pack('>I8I8', login or 0, seen or 0)
    key, at = key + 4, last_field + 2 + ARGV[last_field + 1]
  end
  return plain, labels, table.concat(reply)
end
