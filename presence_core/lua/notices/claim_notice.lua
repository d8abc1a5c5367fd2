#!lua
-- Claims a notice of a user that is due, so that no other sender sends it. Those that have waited for too long are
-- dropped; those whose sender has not said how it went are unsure, and are not sent again.
-- include: notices/stored_notices
-- KEYS: 1 notices of the user 2 notice queue
-- ARGV: 1 now|'' 2 uid 3 claim 4 seconds after which one that waits is dropped 5 seconds that a sender may take
-- returns: {id|'', the notice as JSON|'', how many were dropped, how many are unsure, how many of the user wait}
local notices, queue = unpack(KEYS)
local given_now, uid, claim, give_up, hold = unpack(ARGV, 1, ARGS)
local now = clock(given_now)
local bad = foreign('HLEN', notices, 'ZCARD', queue)
if bad then return bad end
local stored, lapsed = read_stored(notices, now)
local found, changed, dropped, unsure, waiting = '', {}, 0, 0, 0
for id, notice in pairs(stored) do
  if notice.state == 'waiting' and now - tonumber(notice.at) >= tonumber(give_up) * 1000 then
    notice.state, changed[id], dropped = 'dropped', true, dropped + 1
  elseif notice.state == 'sending' and tonumber(notice.due) <= now then
    notice.state, changed[id], unsure = 'unsure', true, unsure + 1
  elseif notice.state == 'waiting' and tonumber(notice.due) <= now and found == '' then
    notice.state, notice.claim, notice.due = 'sending', claim, ms(now + tonumber(hold) * 1000)
    notice.claimed, found, changed[id] = ms(now), id, true
  elseif notice.state == 'waiting' then
    waiting = waiting + 1
  end
end
store_changed(notices, queue, uid, stored, changed, lapsed)
return {found, found == '' and '' or cjson.encode(stored[found]), dropped, unsure, waiting}
