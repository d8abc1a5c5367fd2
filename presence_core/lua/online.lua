#!lua flags=no-writes
-- A page of the users who were seen of late and have a live session on this shard, in the order in which they were seen.
-- include: time
-- include: climb
-- include: alive
-- KEYS: 1 users 2 sessions 3 deadlines 4 meta
-- ARGV: 1 now|'' 2 prefix of users' keys 3 seen within, ms 4 where this page begins|'' 5 how many are looked at
-- returns: {{uid, last seen, …}, where the next page begins|''}
local now = clock(ARGV[1])
local flat, behind = climb(KEYS[1], ARGV[4] ~= '' and ARGV[4] or ms(now - ARGV[3]), '+inf', ARGV[5])
local uids, out = {}, {}
for i = 1, #flat, 2 do uids[#uids + 1] = flat[i] end
local dead = dead_among(now, KEYS[2], KEYS[3], KEYS[4], ARGV[2], uids)
for i = 1, #flat, 2 do
  if not dead[flat[i]] then
    local n = #out
    out[n + 1], out[n + 2] = flat[i], flat[i + 1]
  end
end
return {out, behind}
