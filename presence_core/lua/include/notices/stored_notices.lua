-- The notices of one user: id → JSON {sid, at (of the login, ms), kinds, state, until (when it is removed, ms), due
-- (when it is sent, or given up, ms), claim, claimed (when it was last, ms), devices (digests in hex of the device of
-- the login), after (where a move led to: os, browser, country, city), answer, reserved_by (the call that carries an
-- answer out), reserved_until (ms)}. State: waiting, sending, sent, unsure (the sender stopped while it sent), refused
-- (the mail server accepts none to this address), skipped (no address), dropped (too old), link (no mail, only a link
-- with an answer). `notice_queue` has when the first of a user is due.
-- include: clock
-- include: key_types

-- The notices that are kept, by id, and the ids of those that have lapsed.
local function read_stored(notices, now)
  local flat, stored, lapsed = redis.call('HGETALL', notices), {}, {}
  for i = 1, #flat, 2 do
    local readable, notice = pcall(cjson.decode, flat[i + 1])
    if readable and type(notice) == 'table' and (tonumber(notice['until']) or 0) > now then
      stored[flat[i]] = notice
    else
      lapsed[#lapsed + 1] = flat[i]
    end
  end
  return stored, lapsed
end

-- Store the notices of `changed` ids, remove the lapsed ones, and note when the first is due.
local function store_changed(notices, queue, uid, stored, changed, lapsed)
  local due, last
  for _, notice in pairs(stored) do
    last = math.max(last or 0, tonumber(notice['until']))
    if notice.state == 'waiting' or notice.state == 'sending' then
      due = math.min(due or math.huge, tonumber(notice.due))
    end
  end
  for id in pairs(changed) do redis.call('HSET', notices, id, cjson.encode(stored[id])) end
  for first = 1, #lapsed, 1000 do
    redis.call('HDEL', notices, unpack(lapsed, first, math.min(first + 999, #lapsed)))
  end
  if last then redis.call('PEXPIREAT', notices, ms(last)) end
  if due then redis.call('ZADD', queue, ms(due), uid) else redis.call('ZREM', queue, uid) end
end
