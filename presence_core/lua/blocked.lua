#!lua flags=no-writes
-- Why this user may not log in, if so.
-- include: time
-- include: ending
-- include: hold
-- KEYS: 1 block
-- ARGV: 1 now|''
-- returns: {0 none | 1 blocked | 2 a block whose time is over, {by, reason, message, ticket, at, until}}
local bad = foreign('HLEN', KEYS[1])
if bad then return bad end
local row = redis.call('HMGET', KEYS[1], 'by', 'reason', 'message', 'ticket', 'at', 'until')
if not row[6] then return {0, {}} end
return {is_held(clock(ARGV[1]), row[6]) and 1 or 2, row}
