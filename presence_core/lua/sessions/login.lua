#!lua
-- Begin a session: in all of its lists at once, or in none. A limit ends the oldest sessions in the same step: they are
-- no longer live, and maintenance/settle_sessions.lua writes their tombstones. So no race can show one session too
-- many.
-- include: staff/block_rules
-- include: login/times
-- include: login/limits
-- include: login/labels
-- include: login/lists
-- include: sessions/list_on_behalf
-- include: sessions/authentication
-- include: login/odd_login
-- include: login/sign_ins
-- include: failures
-- include: staff/audit_entry
-- include: search/session_ids
-- include: search/idp_entries
-- KEYS: 1-13 Shard.lists 14 labels 15 words 16 block 17-20 Shard.of_user 21 record 22 block_rules 23 ids
--       24 idp 25 failed 26 failures of the user 27 failed_from 28 known devices 29 place of the last login (of a login
--       that names its device, or has a place); or 28 audit 29 sessions on behalf of users (of a login on behalf of the
--       user); 30 the user's sign-ins, where they are kept
-- ARGV: 1 now|'' 2 policy 3 uid 4 sid 5 digest of the secret 6 idle s 7 absolute s 8 packed address, as recorded
--       9 client label 10 client text 11 agent label 12 agent text 13 label limit 14 device
--       15 max sessions 16 max per device|0 17 replace|reject 18 login at|'' 19 last seen|'' (imported)
--       20 declared attributes (facets.lua) 21 index the address 0|1 22 digest of the session id, 4 bytes|'' (not
--       indexed) 23 methods|'' (authentication.lua) 24 JSON of what may be odd (odd_login.lua)|'' 25 place|''
--       26 the whole address, for block rules 27 pass|refuse: a login without one while a rule names a network
--       28 when the identity provider ends it, ms|'' 29 its link to index|'' 30 what to note if it is refused
--       (include/failures.lua)|'' (imported, on behalf of the user) 31 for how many ms the sign-in is kept, and its
--       text in the history, one a line|'' (not kept) 32 how many words the further fields of the record take, these,
--       then the user's entries of the index of words
-- returns: {'ok', last seen, core, {sids that a limit ended}, {sids found past their deadline, ended as expired},
--          {h, q}, o|'', u|'', 1 if it has no address while a rule names a network, guesses since the login before} or
--          {'limit'|'device_limit'|'no_address'|'ended'|'expired'} (1 behind 'ended': see sessions/validate.lua) or
--          {'blocked', message, until ms|''} or {'block_rule', network|app_version|country, message, until ms|''}
local k = shard_keys()
local labels, words, block, _, _, _, _, record, block_rules, ids, idp, failed, failures, failed_from =
  unpack(KEYS, 14, 27)
local given_now, packed_policy, uid, sid, digest, idle, absolute, ip, client_id, client_text,
  agent_id, agent_text, max_labels, device, max_sessions, max_per_device, on_limit, given_login, given_seen, declared,
  index_address, id_digest, methods, packed_odd, place, full_ip, no_address, idp_end, link, failure, sign_in,
  number_of_words =
  unpack(ARGV, 1, ARGS)
local first_field = ARGS + 1
local now, policy, user, ref = clock(given_now), read_policy(packed_policy), user_keys(uid, 17), uid .. ':' .. sid
local odd, audit, on_behalf = read_odd(packed_odd, now), nil, nil
if odd.by then
  audit, on_behalf = unpack(KEYS, 28, 29)
else
  odd.known, odd.last_place, odd.place = KEYS[28], KEYS[29], place
end
local devices = max_per_device ~= '0' and (odd.devices or device ~= '' and {device}) or {}
device = devices[1] or ''

-- The reply that refuses it. A key of a foreign type keeps the refusal from being noted, and changes nothing else.
local function refuse(reply)
  if failure ~= '' and not foreign('ZCARD', failed, 'HLEN', failures, 'HLEN', failed_from, 'HLEN', k.totals) then
    note_failure(failed, failures, failed_from, k.totals, now, uid, reply[1], read_failure(failure), reply.rule or '')
  end
  return reply
end

-- May it begin?
local old = redis.call('HMGET', record, COUNTED_FIELDS)
local is_spoiled = old[R.core] and not old[R.end_reason] and not is_intact(old[R.seen], old[R.core])
if is_spoiled then old = {} end
local stored_block = redis.pcall('HMGET', block, 'until', 'message')
if stored_block.err then return foreign('HLEN', block) end
if is_blocked(now, stored_block[1]) then return refuse({'blocked', stored_block[2] or '', stored_block[1]}) end
local meta = redis.call('HMGET', k.meta, 'revoked', 'revoked_at', 'floor', 'recount', 'rules')
local revoked, revoked_at = tonumber(meta[1] or -1), tonumber(meta[2] or 0)
local floor, recount = tonumber(meta[3] or 0), meta[4]
local refusal = meta[5] and refusing_rule(now, block_rules, meta[5], full_ip, client_text, place)
if refusal then return refusal.err and refusal or refuse(refusal) end
-- Rules of networks cannot match it.
local has_no_address = full_ip == '' and meta[5] and string.find(meta[5], '/', 1, true) ~= nil
if has_no_address and no_address == 'refuse' then return refuse({'no_address'}) end
user.card = redis.call('SCARD', user.live)
local was_offline = not is_on_behalf(sid) and redis.call('ZSCORE', k.people, uid)
local given = {login = given_login, seen = given_seen, idle = tonumber(idle), absolute = tonumber(absolute),
               idp_end = idp_end}
local refused, login, seen, idle_s, absolute_s, is_repeat = login_times(k, now, ref, old, given, revoked, floor)
if refused then return refuse(refused) end
local ends, replaced, late, limit = {}, {}, {}, nil
if not is_repeat and odd.by then
  if has_most_on_behalf(k, user, now) then return {'limit'} end
elseif not is_repeat and is_mirrored(sid) then
  if user.card >= MAX_MIRRORED then return refuse({'limit'}) end
elseif not is_repeat then
  ends, replaced, late, limit = apply_limits(k, user, sid, now, revoked, revoked_at, {user = tonumber(max_sessions),
    devices = devices, per_device = tonumber(max_per_device), reject = on_limit == 'reject'})
  if limit then return refuse({limit}) end
end

-- The record.
local label_ids, texts = {client_id, agent_id}, {client_text, agent_text}
local new_labels = share_labels(labels, label_ids, texts, tonumber(max_labels))
local core, entries = struct.pack(CORE, login, idle_s, absolute_s, digest, label_ids[1], label_ids[2]) .. ip, {}
for i = first_field + number_of_words, #ARGV do
  entries[#entries + 1], entries[#entries + 2] = 0, ARGV[i]
end
local new = {sid = sid, ref = ref, login = login, seen = seen, idle = idle_s, absolute = absolute_s, core = core,
             is_repeat = is_repeat, device = device, words = entries,
             address = index_address == '1' and address_entries(core, nil, ref)[1] or nil}
declared = declared_members(k.facets, declared)
local fields = add_given({'s', ms(seen), 'c', core, unpack(ARGV, first_field, first_field + number_of_words - 1)},
                         {C = texts[1], A = texts[2], f = declared})

local authentication = login_authentication(record, login, methods, is_repeat)
if authentication[1] then
  fields[#fields + 1], fields[#fields + 2] = 'h', authentication[1]
end

local bad = audit and foreign('XLEN', audit)
         or #entries > 0 and foreign('ZCARD', words) or new.address and foreign('ZCARD', k.addresses)
         or link ~= '' and foreign('ZCARD', idp)
         or (#ends > 0 or is_repeat) and (foreign_shard(k) or device ~= '' and foreign('HLEN', user.devices))
         or all_or_nothing(function() add_to_lists(k, policy, now, user, words, new) end)
if bad then return bad end

-- Nothing below can fail.
local row = {[R.core] = core, [R.client] = texts[1], [R.agent] = texts[2], [R.declared] = declared, [R.place] = place}
count_login(k, new, row, old, recount)
if id_digest ~= '' then add_session_id(ids, k.sessions, id_digest, login) end
for _, entry in ipairs(idp_entries(link, ref)) do redis.call('ZADD', idp, 0, entry) end
if was_offline then redis.call('ZREM', k.people, uid) end
if has_no_address then
  redis.call('HINCRBY', k.meta, 'no_address', 1)
  redis.call('HSET', k.meta, 'no_address_at', ms(now))
end
if #new_labels > 0 then
  redis.call('HSET', labels, unpack(new_labels))
  redis.pcall('HSETNX', k.facets, '-', PAD)
end
if is_spoiled then redis.call('UNLINK', record) end
if is_repeat then redis.call('HDEL', record, LOGIN_FIELDS) end
odd.guesses = not is_repeat and failure ~= '' and take_guesses(failures) or 0
local odd_field = note_odd(k, policy, odd, new, is_repeat and old[R.odd], given_login ~= '')
if odd.by and not (is_repeat and odd.by == string.sub(old[R.odd] or '', 2)) then
  write_audit_entry(audit, policy.audit, ms(now), odd.by, 'login_on_behalf', {uid = uid, session = sid,
    reason = odd.reason})
end
if odd_field ~= '' then
  fields[#fields + 1], fields[#fields + 2] = 'o', odd_field
end
local idp_end_field = is_repeat and (old[R.idp_end] or '') or idp_end ~= '' and struct.pack('>I8', idp_end) or ''
if idp_end_field ~= '' then
  fields[#fields + 1], fields[#fields + 2] = 'u', idp_end_field
end
redis.call('HSET', record, unpack(fields))
if sign_in ~= '' and not is_repeat then
  sign_in_history().note(now, KEYS[30], login, string.byte(odd_field) or 0, sign_in, given_login ~= '')
end
if policy.ttl and not is_repeat then
  redis.call('PEXPIREAT', record, ms(login + (absolute_s + 86400) * 1000))
end
user.card = user.card + redis.call('SADD', user.live, sid)
if odd.by then list_on_behalf(on_behalf, policy, now, ref, login + absolute_s * 1000) end
remove_from_lists(k, policy, ends)
note_in_closing(k, ends)
return {'ok', ms(seen), core, replaced, late, authentication, odd_field, idp_end_field, has_no_address and 1 or 0,
        odd.guesses}
