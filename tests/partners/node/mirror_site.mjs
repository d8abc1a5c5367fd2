// A site that keeps its sessions in Redis: node mirror_site.mjs express|better-auth|redis-sessions URL. Prints its port.
import express from "express";
import { createClient } from "redis";

const [kind, url] = process.argv.slice(2);
const app = express();
const client = createClient({ url });
await client.connect();

const users = {
  async express() {
    const { default: session } = await import("express-session");
    const { RedisStore } = await import("connect-redis");
    const options = { secret: "test", resave: false, saveUninitialized: false, cookie: { maxAge: 3600_000 } };
    app.use(session({ store: new RedisStore({ client }), ...options }));
    return {
      who: async (request) => request.session.userId,
      in: (request, _, who) => new Promise((done) => request.session.regenerate(() => done((request.session.userId = who)))),
      out: (request) => new Promise((done) => request.session.destroy(done)),
      touch: async (request) => (request.session.count = (request.session.count ?? 0) + 1), // written back at the end
    };
  },

  async "better-auth"() {
    const { betterAuth } = await import("better-auth");
    const { memoryAdapter } = await import("better-auth/adapters/memory");
    const { fromNodeHeaders } = await import("better-auth/node");
    const database = { user: [], session: [], account: [], verification: [] };
    const auth = betterAuth({
      baseURL: "http://127.0.0.1",
      secret: "a test, and nothing but a test: 0123456789",
      database: memoryAdapter(database),
      emailAndPassword: { enabled: true },
      rateLimit: { enabled: false },
      secondaryStorage: {
        get: (key) => client.get(key),
        set: (key, value, ttl) => client.set(key, value, ttl ? { EX: ttl } : {}).then(() => undefined),
        delete: (key) => client.del(key).then(() => undefined),
      },
    });
    const ask = (api, request, body) => api({ body, headers: fromNodeHeaders(request.headers), asResponse: true });
    const pass = async (answer, response) => response.append("set-cookie", answer.headers.getSetCookie());
    const headers = (request) => ({ headers: fromNodeHeaders(request.headers) });
    return {
      who: async (request) => (await auth.api.getSession(headers(request)))?.user.email.split("@")[0],
      in: async (request, response, who) => {
        const body = { email: `${who}@example.com`, password: "a long password", name: `User ${who}` };
        const known = database.user.some((user) => user.email === body.email);
        await pass(await ask(known ? auth.api.signInEmail : auth.api.signUpEmail, request, body), response);
      },
      out: async (request, response) => pass(await ask(auth.api.signOut, request), response),
      touch: async () => undefined,
      id: async (who) => database.user.find((user) => user.email === `${who}@example.com`)?.id,
    };
  },

  async "redis-sessions"() {
    const { default: module } = await import("redis-sessions");
    const RedisSessions = module.default ?? module;
    const sessions = new RedisSessions({ options: { url }, wipe: 0 });
    const token = (request) => /token=(\w+)/.exec(request.headers.cookie ?? "")?.[1];
    const get = (request) => sessions.get({ app: "shop", token: token(request) }).catch(() => null);
    return {
      who: async (request) => (token(request) ? (await get(request))?.id : undefined),
      in: async (request, response, who) => {
        const made = await sessions.create({ app: "shop", id: who, ip: "203.0.113.9", ttl: 3600 });
        response.append("set-cookie", `token=${made.token}; Path=/`);
      },
      out: (request) => sessions.kill({ app: "shop", token: token(request) }),
      touch: async (request) => sessions.set({ app: "shop", token: token(request), d: { n: 1 } }).catch(() => null),
    };
  },
};

const site = await users[kind]();
app.post("/in/:who", async (request, response) => {
  await site.in(request, response, request.params.who);
  response.send((await site.id?.(request.params.who)) ?? request.params.who);
});
app.post("/out", async (request, response) => response.send(String((await site.out(request, response), "out"))));
app.get("/", async (request, response) => response.send((await site.who(request)) ?? ""));
app.get("/slow", async (request, response) => {
  const who = (await site.who(request)) ?? "";
  await new Promise((done) => setTimeout(done, 200));
  if (who) await site.touch(request);
  response.send(who);
});
const listening = app.listen(0, "127.0.0.1", () => console.log(listening.address().port));
