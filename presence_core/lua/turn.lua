#!lua flags=allow-oom
-- A runner of a bulk kick says how far it came and goes on, or takes over from one that has not been heard of. Who holds
-- the job is decided by the time of the last beat: a clock that was set back holds up nobody. Who has only now got hold
-- of it, or knows of no epoch of its own any more, gets a new one, higher than all before.
-- include: time
-- include: ending
-- include: epoch
-- KEYS: 1 job 2 running
-- ARGV: 1 now|'' 2 id 3 token 4 how long a hold lasts without a beat, ms 5 seconds that the job is kept
--       6 this runner's epoch|0 7 the highest epoch that it has met, should the job's own have been lost
--       8… field, value: how far this runner came, written only where it still holds the job
-- returns: this runner's epoch: it has the job; 0 another has, or it is not to be run; -1 there is no such job
local now, token = clock(ARGV[1]), ARGV[3]
local bad = foreign('HLEN', KEYS[1], 'SCARD', KEYS[2])
if bad then return bad end
local row = redis.call('HMGET', KEYS[1], 'state', 'owner', 'beat', 'epoch')
local state, owner, beat = row[1], row[2], tonumber(row[3] or '')
local epoch, own, met = whole(row[4]), tonumber(ARGV[6]), tonumber(ARGV[7])
if state ~= 'running' then redis.call('SREM', KEYS[2], ARGV[2]) end
if not state then return -1 end
if owner == token and #ARGV > 7 then redis.call('HSET', KEYS[1], unpack(ARGV, 8)) end
if state ~= 'running' then return 0 end
local held = owner and owner ~= '' and beat and beat <= now and now < beat + tonumber(ARGV[4])
if held and owner ~= token then return 0 end
if owner ~= token or own == 0 or own ~= epoch then epoch = math.max(epoch, met) + 1 end
redis.call('HSET', KEYS[1], 'owner', token, 'epoch', ms(epoch), 'beat', ms(now), 'updated', ms(now))
redis.call('EXPIRE', KEYS[1], ARGV[5])
return epoch
