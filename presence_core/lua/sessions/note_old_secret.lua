#!lua
-- Note that a secret was used after the grace of the rotate that replaced it: someone has an old copy. Once a session.
-- include: sessions/session_state
-- KEYS: 1 sessions 2 closing 3 meta 4 record 5 events
-- ARGV: 1 now|'' 2 ref 3 most events
-- returns: 1; 0 if the session has ended, or this was noted before
local sessions, closing, meta, record, events = unpack(KEYS)
local now, ref, max_events = clock(ARGV[1]), ARGV[2], ARGV[3]

local state, row = state_of(now, sessions, closing, meta, ref, record)
local odd = row[R.odd] or '\0'
if state ~= LIVE or bit.band(string.byte(odd), FLAG_OLD_TOKEN) > 0 then return 0 end
redis.call('XLEN', events)
redis.call('HSET', record, 'o', string.char(string.byte(odd) + FLAG_OLD_TOKEN) .. string.sub(odd, 2))
redis.call('XADD', events, 'MAXLEN', '~', max_events, '*', 'k', 'old_token', 'r', ref, 'a', ms(now))
return 1
