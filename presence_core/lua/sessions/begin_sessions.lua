#!lua
-- Begin the sessions that need no decision, in all of their lists at once. The others stay as they are, for
-- sessions/login.lua. What sessions share is written once, with many members.
-- include: login/plain_rows
-- include: login/undo
-- include: facets
-- include: sessions/addresses
-- include: search/session_ids
-- include: login/sign_ins
-- KEYS: 1 sessions 2 deadlines 3 users 4 people 5 events 6 totals 7 meta 8 addresses 9 facets 10 labels 11 words
--       12 block_rules 13 ids 14… of each row: user, record, block, failures of the user; then, where sign-ins are
--       kept, of each row the user's sign-ins
-- ARGV: 1 now|'' 2 events to keep 3 record TTL 0|1 4 max sessions 5 label limit 6 index the addresses 0|1 7 number of
--       labels 8 whether sign-ins are kept 0|1 9… id and text of each label; then of each row: core
--       without its login time, login at|'' and last seen|'' (imported), digest of the session id|'' (not indexed),
--       methods|'', declared attributes (facets.lua), place, how many words the further fields of the record take,
--       these, number of entries of the index of words, the entries; then, where sign-ins are kept, of each row for
--       how many ms, and its text in the sign-in history, one a line
-- returns: of each row login and last seen, ms, 8 bytes each, or zeros: it needs a decision. '' if nothing was done
local sessions, deadlines, users, people, events, totals, meta_key, addresses, facets, labels, words, block_rules, ids =
  unpack(KEYS, 1, 13)
local now, most_events, ttl, most_sessions, most_labels, index_addresses, label_count, keep_sign_ins =
  unpack(ARGV, 1, ARGS)
now = clock(now)

-- Where one of these is of a foreign type, login.lua says so.
if foreign('ZCARD', people, 'ZCARD', words) then return '' end
local first_row = ARGS + 1 + 2 * label_count
local refs = {}
local last_key = keep_sign_ins == '0' and #KEYS or 13 + (#KEYS - 13) / 5 * 4
for key = 15, last_key, 4 do refs[(key - 11) / 4] = string.sub(KEYS[key], #sessions + 1) end -- T:session:<ref>
local listed = redis.pcall('ZMSCORE', sessions, unpack(refs))
local meta = redis.pcall('HMGET', meta_key, 'revoked', 'floor', 'recount', 'rules')
local texts, new_labels = read_labels(labels, {unpack(ARGV, ARGS + 1, first_row - 1)}, tonumber(most_labels))
if listed.err or meta.err or not texts or meta[3] then return '' end

local plain, added_labels, reply = choose_plain(
  refs, 14, first_row, now, tonumber(most_sessions),
  {listed = listed, revoked = tonumber(meta[1] or -1), floor = tonumber(meta[2] or 0),
   rules = meta[4], texts = texts, new_labels = new_labels, block_rules = block_rules})
if #plain == 0 then return '' end

local function add_to_lists()
  local taken, uids, by_login, by_deadline, by_uid, new_users = {}, {}, {}, {}, {'GT'}, {}
  local by_word, by_address, entries = {}, {}, 0
  for i, row in ipairs(plain) do
    local at = 2 * i
    taken[i], uids[i] = row.ref, row.uid
    by_login[at - 1], by_login[at] = ms(row.login), row.ref
    local by_idle, by_absolute = row.seen + row.idle * 1000, row.login + row.absolute * 1000
    by_deadline[at - 1], by_deadline[at] = math.min(by_idle, by_absolute), row.ref
    by_uid[at], by_uid[at + 1] = ms(row.seen), row.uid
    if row.is_first then new_users[#new_users + 1] = row.uid end
    for word = row.last_field + 2, row.last_field + 1 + ARGV[row.last_field + 1] do
      by_word[entries + 1], by_word[entries + 2] = '0', ARGV[word]
      entries = entries + 2
    end
    local address = index_addresses == '1' and indexed_address(row.ip)
    if address then
      by_address[#by_address + 1], by_address[#by_address + 2] = '0', address .. row.ref
    end
  end
  write({'ZREM', sessions, unpack(taken)}, 'ZADD', sessions, unpack(by_login))
  write({'HINCRBY', totals, 'login', -#plain}, 'HINCRBY', totals, 'login', #plain)
  for _, row in ipairs(plain) do
    local id = write(nil, 'XADD', events, 'MAXLEN', '~', most_events, '*', 'k', 'login', 'r', row.ref,
                     'a', ms(row.login))
    undo_commands[#undo_commands + 1] = {'XDEL', events, id}
  end
  write({'ZREM', deadlines, unpack(taken)}, 'ZADD', deadlines, unpack(by_deadline))
  if #by_address > 0 then -- to undo it, ZREM also gets the scores, which are no members
    write({'ZREM', addresses, unpack(by_address)}, 'ZADD', addresses, unpack(by_address))
  end
  -- What cannot be undone is last: users who have other sessions, words that other sessions have, and people.
  write(#new_users > 0 and {'ZREM', users, unpack(new_users)} or nil, 'ZADD', users, unpack(by_uid))
  in_thousands(by_word, function(...) write(nil, 'ZADD', words, ...) end)
  write(nil, 'ZREM', people, unpack(uids))
end
if all_or_nothing(add_to_lists) then return '' end

-- Nothing below can fail.
local sums, history = {}, keep_sign_ins == '1' and sign_in_history()
for _, row in ipairs(plain) do
  local record, declared = KEYS[row.key + 1], declared_members(facets, row.declared)
  local fields = {'s', ms(row.seen), 'c', row.core, unpack(ARGV, row.first_field, row.last_field)}
  if declared ~= '' then
    fields[#fields + 1], fields[#fields + 2] = 'f', declared
  end
  if row.methods ~= '' then
    fields[#fields + 1], fields[#fields + 2] = 'h', struct.pack('>I8', row.login) .. row.methods
  end
  redis.call('HSET', record, unpack(fields))
  if ttl == '1' then redis.call('PEXPIREAT', record, row.login + (row.absolute + 86400) * 1000) end
  redis.call('SADD', KEYS[row.key], string.sub(row.ref, #row.uid + 2))
  if row.id_digest ~= '' then add_session_id(ids, sessions, row.id_digest, row.login) end
  if history then
    local number = (row.key - 10) / 4
    history.note(now, KEYS[last_key + number], row.login, 0, ARGV[#ARGV - #refs + number], row.is_imported)
  end
  add_facets(sums, {[R.core] = row.core, [R.declared] = declared, [R.place] = row.place}, 1)
end
change_facets(facets, sums)
if #added_labels > 0 then
  redis.call('HSET', labels, unpack(added_labels))
  redis.pcall('HSETNX', facets, '-', PAD)
end
return reply
