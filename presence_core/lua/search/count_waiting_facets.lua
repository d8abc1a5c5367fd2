#!lua flags=no-writes
-- The facets of a page of the sessions that have ended, but are counted until a sweep: past their deadline, revoked, or
-- without their tombstone.
-- include: clock
-- include: facets
-- include: read_derived
-- include: search/waiting_page
-- include: sessions/session_record
-- KEYS: 1 deadlines 2 sessions 3 closing 4 meta
-- ARGV: 1 now|'' 2 prefix of records 3 most sessions of a page 4 sessions past their deadline at this time, ms|'' (now)
--       5, 6 deadline and ref at which the page begins|''
-- returns: {time of the page, sessions past their deadline then, sessions of the page, {facet, number, …}, deadline and
--          ref at which the next page begins|''}
local deadlines, sessions, closing, meta = unpack(KEYS)
local given_now, prefix, limit, upto, score, ref = unpack(ARGV)
upto = upto == '' and ms(clock(given_now)) or upto
local refs, _, next_score, next_ref = waiting_page(deadlines, upto, limit, score, ref)
local read = #refs

-- Of the others, only as many as one call reads: they are few, except while a revoke_before is draining.
local function add_few(found)
  local due = #found > 0 and redis.call('ZMSCORE', deadlines, unpack(found)) or {}
  for i, other in ipairs(found) do
    if not due[i] or tonumber(due[i]) > tonumber(upto) then refs[#refs + 1] = other end
  end
end
if score == '' then
  local revoked = redis.call('HGET', meta, 'revoked')
  if revoked then add_few(redis.call('ZRANGE', sessions, '-inf', revoked, 'BYSCORE', 'LIMIT', 0, limit)) end
  add_few(redis.call('HRANDFIELD', closing, limit))
end

local sums, counted = {}, {}
for _, waiting in ipairs(refs) do
  local row = read_derived('HMGET', prefix .. waiting, COUNTED_FIELDS)
  if not row.err and is_intact(row[R.seen], row[R.core]) and not row[R.end_reason] then add_facets(sums, row, 1) end
end
for facet, number in pairs(sums) do
  local n = #counted
  counted[n + 1], counted[n + 2] = facet, number
end
return {tonumber(upto), redis.call('ZCOUNT', deadlines, '-inf', upto), read, counted, next_score, next_ref}
