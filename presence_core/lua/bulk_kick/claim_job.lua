#!lua flags=allow-oom
-- A runner of a bulk kick writes its progress and keeps the job, or claims it from a runner whose claim is too old. The
-- time of the last claim decides whose the job is. A claim from the future is ignored. A runner that
-- claims the job for the first time, or has no valid epoch, gets a new epoch, higher than all before. A job is left to
-- newer processes if it needs a feature that this runner does not know. No runner gets a job before its `not_before`.
-- include: clock
-- include: sessions/end_session
-- include: bulk_kick/fencing_epoch
-- KEYS: 1 job 2 running
-- ARGV: 1 now|'' 2 id 3 token 4 how long a claim lasts, ms 5 seconds that the job is kept
--       6 this runner's epoch|0 7 the highest epoch that it has met, in case the job's own was lost
--       8 features that this runner knows, each between spaces
--       9… field, value: this runner's progress, written only while the job is its own
-- returns: {this runner's epoch; 0: another runner has claimed it, or it does not run, or not yet; -1: there is no such
--          job; -2: it needs a newer process, ms until it may begin}
local job, running = unpack(KEYS)
local given_now, id, token, claim_ms, keep, given_epoch, highest_epoch, known = unpack(ARGV, 1, ARGS)
local now, own_epoch, has_progress = clock(given_now), tonumber(given_epoch), #ARGV > ARGS
local bad = foreign('HLEN', job, 'SCARD', running)
if bad then return bad end
local state, owner, beat, epoch, closed, needs, not_before =
  unpack(redis.call('HMGET', job, 'state', 'owner', 'beat', 'epoch', 'closed', 'needs', 'not_before'))
beat, epoch = tonumber(beat or ''), whole(epoch)
for word in string.gmatch(string.sub(needs or '', 1, 1000), '%S+') do
  if not string.find(known, ' ' .. word .. ' ', 1, true) then return {-2, 0} end
end
local unclosed = state == 'cancelled' and not closed -- the list of running jobs keeps it until the audit has the count
if state ~= 'running' and not unclosed then redis.call('SREM', running, id) end
if not state then return {-1, 0} end
if owner == token and has_progress then redis.call('HSET', job, unpack(ARGV, ARGS + 1)) end
if state ~= 'running' then return {0, 0} end
local wait = whole(not_before) - now
if wait > 0 then return {0, wait} end
local is_claimed = owner and owner ~= '' and beat and beat <= now and now < beat + tonumber(claim_ms)
if is_claimed and owner ~= token then return {0, 0} end
if owner ~= token or own_epoch == 0 or own_epoch ~= epoch then epoch = math.max(epoch, tonumber(highest_epoch)) + 1 end
redis.call('HSET', job, 'owner', token, 'epoch', ms(epoch), 'beat', ms(now), 'updated', ms(now))
redis.call('EXPIRE', job, keep)
return {epoch, 0}
