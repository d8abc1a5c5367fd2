#!lua flags=no-writes
-- Count who is online on this shard, and read a page of the sessions past their deadline that no sweep has ended yet:
-- until then the list of users and the totals do not know that they have ended.
-- include: search/live_count
-- include: search/waiting_page
-- include: search/offline_users
-- KEYS: 1 deadlines 2 users 3 meta 4 totals 5 sessions
-- ARGV: 1 now|'' 2 prefix of users' keys 3 most sessions of a page; 0: read none 4 count users who were seen within so
--       many ms|'' 5 sessions past their deadline at this time, ms|'' (now) 6, 7 deadline and ref at which the page
--       begins|''
-- returns: {now, live sessions, users in the list, when a sweep last ran to its end|'', {reason, number, …}, draining
--          0|1, time of the page, sessions past their deadline then, revoked sessions in the list, sessions of the
--          page, those of them that a sweep will end as revoked, those whose deadline came before they were revoked,
--          {uid, last seen, …} of users in the list without a live session, deadline and ref at which the next page
--          begins|''}
local deadlines, users, meta, totals, sessions = unpack(KEYS)
local given_now, prefix, limit, within, upto, score, ref = unpack(ARGV)
local now = clock(given_now)
local swept, revoked, revoked_at = unpack(redis.call('HMGET', meta, 'swept', 'revoked', 'revoked_at'))
local live, draining = live_sessions(now, sessions, deadlines, revoked)
local online = within == '' and redis.call('ZCARD', users) or redis.call('ZCOUNT', users, ms(now - within), '+inf')
upto = upto == '' and ms(now) or upto

local killed = draining and redis.call('ZCOUNT', sessions, '-inf', revoked) or 0
local refs, due, next_score, next_ref = {}, {}, '', ''
if limit ~= '0' then refs, due, next_score, next_ref = waiting_page(deadlines, upto, limit, score, ref) end
local late, early = 0, 0
local logins = killed > 0 and #refs > 0 and redis.call('ZMSCORE', sessions, unpack(refs)) or {}
for i, login in ipairs(logins) do
  if login and tonumber(login) <= tonumber(revoked) then
    if tonumber(due[i]) > tonumber(revoked_at or 0) then late = late + 1 else early = early + 1 end
  end
end

-- Of revoked sessions only a few are looked at: while they are drained, there are at most as many users as sessions.
local some = limit ~= '0' and killed > 0 and killed <= MAX_DUE and score == ''
local uids = owners_of(nil, refs, some and redis.call('ZRANGE', sessions, '-inf', revoked, 'BYSCORE') or {})
local offline, seen = {}, #uids > 0 and redis.call('ZMSCORE', users, unpack(uids)) or {}
local found = #uids > 0 and without_live_session(now, sessions, deadlines, prefix, tonumber(revoked or nil), uids) or {}
for i, at in ipairs(seen) do
  if at and found[uids[i]] then offline[#offline + 1], offline[#offline + 2] = uids[i], at end
end
return {now, live, online, swept or '', redis.call('HGETALL', totals), draining and 1 or 0, tonumber(upto),
        redis.call('ZCOUNT', deadlines, '-inf', upto), killed, #refs, late, early, offline, next_score, next_ref}
