#!lua flags=allow-oom
-- A step of a reshard is done: writes the next one, for the coordinator whose copy is in use.
-- KEYS: 1 layout
-- ARGV: 1 token with which the fences were sealed 2 the step 3 the next one|'' (it was the last)
-- returns: 1, or 0: the layout is at another step, or of another reshard
local layout = KEYS[1]
local token, done, following = unpack(ARGV)
local sealed, step = unpack(redis.call('HMGET', layout, 'sealed', 'step'))
if (sealed == token and step == following) or (not step and following == '') then return 1 end -- sent again
if sealed ~= token or step ~= done then return 0 end
if following == '' then
  redis.call('HDEL', layout, 'step', 'from', 'token', 'sealed')
else
  redis.call('HSET', layout, 'step', following)
end
return 1
