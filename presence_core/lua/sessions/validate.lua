#!lua flags=allow-oom
-- May this request pass? And, when asked, note that the session was seen.
-- include: sessions/session_state
-- include: sessions/move_address
-- include: sessions/on_behalf
-- include: sessions/confirmed_clock
-- KEYS: 1 sessions 2 deadlines 3 users 4 closing 5 meta 6 record 7 addresses (or none: they are not indexed) 8 events
--       9 totals 10 labels; 8 to 10, and the last argument, only where a move can be noticed
-- ARGV: 1 now|'' 2 uid 3 sid 4 digest of the secret|'' (validated by id) 5 touch 0|1 6 packed address|''
--       7 ms|'': refuse an older authentication 8 of the request: agent label, whether addresses are indexed (0|1),
--       and a line each: on_move, most events, os, browser, then its place
-- returns: {LIVE, row, now}, and 1 behind them where the session has moved; {state, row, how} for others, and 1 behind
--          them where the session is past its deadline by a confirmed clock, so that its end is to be written;
--          {UNKNOWN} for a wrong secret, as for a session that never was; {OLD_SECRET} for a former one whose use
--          sessions/note_old_secret.lua is to note
local sessions, deadlines, users, closing, meta, record, addresses, events, totals, labels = unpack(KEYS)
local now, uid, sid, digest, touch, ip = clock(ARGV[1]), ARGV[2], ARGV[3], ARGV[4], ARGV[5] == '1', ARGV[6]
local max_age, request, has_moved = ARGV[7], ARGV[8], false
local ref = uid .. ':' .. sid

-- include: tokens/asked_session

-- A request that is refused does not count as seen. Staff who act on behalf of the user never pass for a fresh
-- authentication of theirs.
if state == LIVE and row[R.demand] then return {SIGN_IN_REQUIRED, row, {}} end
if state == LIVE and max_age ~= '' then
  local authentication = row[R.authentication]
  local authenticated = struct.unpack('>I8', authentication and #authentication >= 8 and authentication or core)
  if is_on_behalf(sid) or now - authenticated > tonumber(max_age) then return {AUTHENTICATION_TOO_OLD, row, {}} end
end
if state == LIVE and touch and not FENCE_STATE then
-- check commands
  local seen = tonumber(row[R.seen])
  if now > seen then
    redis.call('ZADD', deadlines, 'XX', 'GT', deadline_of(now, core), ref)
    if not is_on_behalf(sid) then
      redis.pcall('ZADD', users, 'XX', 'GT', now, uid) -- only readers use it: no reason to turn a visitor away
    end
    row[R.seen] = ms(now)
    redis.call('HSET', record, 's', row[R.seen])
  end
  if ip ~= '' and ip ~= (row[R.last_ip] or string.sub(core, 41)) then
    local at_login, before = string.sub(core, 41), row[R.last_ip] or string.sub(core, 41)
    row[R.last_ip] = ip ~= at_login and ip
    if row[R.last_ip] then redis.call('HSET', record, 'i', ip) else redis.call('HDEL', record, 'i') end
    local is_indexed = addresses and not (request and string.byte(request, 5) == 48)
    if is_indexed then move_address(addresses, ref, at_login, before, ip) end
    if events then
-- include: moves/latest_place
      local given, agent = {}, string.sub(request, 1, 4)
      given.on_move, given.max_events, given.family, given.place =
        string.match(request, '^(%l[%l_]*)\n(%d+)\n([^\n]*\n[^\n]*)\n(.*)$', 6)
      if row[R.move] == nil and before ~= at_login then row[R.move] = redis.call('HGET', record, 'w') end
      local last, since, further = read_latest(row)
      for at = R.authentication, R.move do row[at] = row[at] or false end -- a reply ends at a nil
      local is_abroad = last ~= '' and given.place ~= '' and country_of(given.place) ~= country_of(last)
      if is_abroad or agent ~= NO_LABEL and agent ~= string.sub(core, 37, 40) then
-- include: moves/note_move
        local k = {record = record, meta = meta, events = events, totals = totals, labels = labels}
        further, has_moved =
          note_move(k, now, ref, row, last, tonumber(since) or seen, further, before, ip, given)
        if has_moved and given.on_move == 'require_sign_in' then demand_sign_in(k, now, ref, row, given.max_events) end
      end
      if given.place ~= '' or last == '' then since, last = '', given.place elseif since == '' then since = ms(seen) end
      keep_latest(record, row, last, since, further)
      if row[R.demand] then return {SIGN_IN_REQUIRED, row, {}} end
    end
  end
end
if state == LIVE then return {state, row, now, has_moved and 1 or nil} end
local is_overdue = state == ENDED and not how and not row[R.end_reason]
if is_overdue and not FENCE_STATE and clock_is_confirmed(now, meta) then return {state, row, {}, 1} end
return {state, row, how or {}}
