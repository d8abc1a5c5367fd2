// npm redis-sessions: sessions with an index by user and by last activity, and a wiper.

import { addressed, many, need, serve } from "./serve.mjs";

const { default: RedisSessions } = need("redis-sessions");
const { version } = need("redis-sessions/package.json");

const app = "bench";
const ttl = Number(process.env.PEER_TTL);
const PAGE = 50;
// wipe: 0 turns the timer off; expire calls what the timer would.
const sessions = new RedisSessions({ options: addressed(), wipe: 0 });

async function login({ uid, ip, aliases, login_at = Date.now() / 1000, ...rest }) {
  const d = { ...rest, alias: aliases[0], login_at }; // no lists are allowed in it
  return (await sessions.create({ app, id: uid, ip, ttl, d })).token;
}

const all = async () => (await sessions.soapp({ app, deltaTime: 10 * 86_400 })).sessions;

await sessions.ping();
await serve(`redis-sessions ${version}`, {
  load: [null, (rows) => many(rows, login)],
  login: ["create", login],
  read: ["get, which also touches", async (token) => (await sessions.get({ app, token })).id],
  count: ["soapp of everything, counted: there is no count of sessions", async () => (await all()).length],
  users: ["activity(600 s)", async () => (await sessions.activity({ app, deltaTime: 600 })).activity],
  page: [
    "soapp of everything, then a slice: by last activity, as there is no list by login",
    async (number) => (await all()).slice((number - 1) * PAGE, number * PAGE).map((one) => one.id),
  ],
  sessions: ["soid", async (id) => (await sessions.soid({ app, id })).sessions.length],
  kick: ["killsoid", async (id) => (await sessions.killsoid({ app, id })).kill],
  expire: [
    "its own wiper, once: all that is past its time, one by one",
    async () => {
      await sessions._wipe();
      return sessions.redis.dbSize();
    },
  ],
  past: [
    null,
    // All of their times at once, in place of a wait of hours.
    () => sessions.redis.sendCommand(["ZUNIONSTORE", "rs:SESSIONS", "1", "rs:SESSIONS", "WEIGHTS", "0"]),
  ],
});
