// connect-redis, the store of express-session: one string a session, found by its id.

import { addressed, many, need, serve } from "./serve.mjs";

const { RedisStore } = need("connect-redis");
const session = need("express-session");
const { createClient } = need("redis");
const versions = ["connect-redis", "express-session", "redis"].map((name) => {
  const found = name === "connect-redis" ? beside(name) : need(`${name}/package.json`);
  return `${name} ${found.version}`;
});

// connect-redis exports no package.json: it is read from beside its code.
function beside(name) {
  return need(need.resolve(name).replace(/dist[^]*$/, "package.json"));
}

const ttl = Number(process.env.PEER_TTL);
const PAGE = 50;
const client = await createClient(addressed()).connect();
const store = new RedisStore({ client, prefix: "sess:", ttl, scanCount: 1000 });
const uid = need("uid-safe");

async function login(row) {
  const id = uid.sync(24); // as express-session makes them
  const cookie = new session.Cookie({ maxAge: ttl * 1000 });
  await store.set(id, { cookie, login_at: Date.now() / 1000, ...row });
  return id;
}

async function read(id) {
  const data = await store.get(id);
  const made = store.createSession({ sessionStore: store, sessionID: id }, data);
  await store.touch(id, made);
  return made.uid;
}

const of = async (person) => (await store.all()).filter((one) => one.uid === person);

await serve(versions.join(", "), {
  load: [null, (rows) => many(rows, login)],
  login: ["store.set", login],
  read: ["store.get, store.touch", read],
  count: ["store.length: SCAN of everything", () => store.length()],
  page: [
    "store.all: SCAN, then one MGET of everything; sorted by login, sliced",
    async (number) => {
      const every = await store.all();
      every.sort((one, other) => other.login_at - one.login_at);
      return every.slice((number - 1) * PAGE, number * PAGE).map((one) => one.uid);
    },
  ],
  sessions: ["store.all, filtered", async (person) => (await of(person)).length],
  kick: [
    "store.all, filtered, store.destroy of each",
    async (person) => {
      const found = await of(person);
      for (const one of found) await store.destroy(one.id);
      return found.length;
    },
  ],
});
