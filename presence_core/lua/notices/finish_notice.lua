#!lua
-- Notes how the sending of a claimed notice went. Only the sender that has claimed it may; after its time has passed
-- only that it was sent after all.
-- include: notices/stored_notices
-- KEYS: 1 notices of the user 2 notice queue
-- ARGV: 1 now|'' 2 uid 3 id 4 claim 5 its new state 6 seconds until it is tried again (state "waiting")
-- returns: 1: noted; 0: it is not this sender's any more, or was erased
local notices, queue = unpack(KEYS)
local given_now, uid, id, claim, state, pause = unpack(ARGV, 1, ARGS)
local now = clock(given_now)
local bad = foreign('HLEN', notices, 'ZCARD', queue)
if bad then return bad end
local stored, lapsed = read_stored(notices, now)
local notice = stored[id]
if not notice or notice.claim ~= claim then return 0 end
if notice.state ~= 'sending' and not (notice.state == 'unsure' and state == 'sent') then return 0 end
notice.state, notice.claim = state, nil
if state == 'waiting' then notice.due = ms(now + tonumber(pause) * 1000) end
store_changed(notices, queue, uid, stored, {[id] = true}, lapsed)
return 1
