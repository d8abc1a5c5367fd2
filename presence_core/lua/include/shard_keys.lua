-- The keys and the policy that every script takes which ends sessions.
-- include: key_types

-- The first keys are Shard.lists. Returns them by name, and how many they are.
local function shard_keys()
  return {sessions = KEYS[1], deadlines = KEYS[2], users = KEYS[3], people = KEYS[4], closing = KEYS[5],
          ended = KEYS[6], events = KEYS[7], totals = KEYS[8], meta = KEYS[9], addresses = KEYS[10],
          facets = KEYS[11], recount = KEYS[12], counted = KEYS[13]}, 13
end

-- The four keys of Shard.of_user, from KEYS[first] on. The other fields are those that an end fills in: named here, so
-- that the table need not grow.
local function user_keys(uid, first)
  return {uid = uid, live = KEYS[first], devices = KEYS[first + 1], ended = KEYS[first + 2], person = KEYS[first + 3],
          card = 0, sids = false, scored = false, name = false, aliases = false, renamed = false}
end

-- Packed by Settings.policy.
local function read_policy(packed)
  local KEPT_SECONDS, people, events, audit, ttl, devices =
    struct.unpack('POLICY_FORMAT', packed)
  return {keep = {KEPT_BY_REASON}, people = people,
          longest = math.max(KEPT_SECONDS), events = events, audit = audit, ttl = ttl == 1,
          devices = devices == 1}
end

local function foreign_shard(k)
  return foreign('ZCARD', k.sessions, 'ZCARD', k.deadlines, 'ZCARD', k.users, 'ZCARD', k.people, 'HLEN', k.closing,
                 'ZCARD', k.ended, 'XLEN', k.events, 'HLEN', k.totals)
end
