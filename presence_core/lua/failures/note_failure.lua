#!lua flags=allow-oom
-- Notes a sign-in that the site refused: of the uid of a person who is known here, or of a text that is none. The
-- client calls it for the one and then for the other, so that the time that it takes tells a visitor nothing.
-- include: failures
-- KEYS: 1 failed|failed_names 2 its rows 3 failed_from 4 totals 5 users 6 people 7 person 8 ended of the user 9 known
--       devices
-- ARGV: 1 now|'' 2 uid, or the name of a text 3 why 4 failure (include/failures.lua) 5 known: only where it is the uid
--       of a person|always|never
-- returns: 1 it was noted|0
local failed, rows, networks, totals, users, people, person, ended, devices = unpack(KEYS, 1, 9)
local given_now, who, why, packed, mode = unpack(ARGV, 1, ARGS)
local bad = foreign('ZCARD', failed, 'HLEN', rows, 'HLEN', networks, 'HLEN', totals)
if bad then return bad end
local function has(list) return type(redis.pcall('ZSCORE', list, who)) == 'string' end
local is_known = redis.call('EXISTS', person, ended, devices) > 0 or has(users) or has(people)
if mode == 'never' or mode == 'known' and not is_known then return 0 end

-- Nothing below can fail.
note_failure(failed, rows, networks, totals, clock(given_now), who, why, read_failure(packed), '')
return 1
