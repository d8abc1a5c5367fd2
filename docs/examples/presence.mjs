// @ts-check
/**
 * A client of the HTTP service of presence_core, for Node 20 and newer. One file without dependencies: copy it.
 *
 * `Presence` calls the service. `tokensOf`, `copiesOf` and `signOut` are for sites with cookies.
 * `ExpressSessions` is for sites with Express and express-session.
 * `Revocations` keeps the ended sessions in memory, for JWTs and for pages that close by themselves after a kick.
 *
 * @typedef {{uid: string, session_id: string, name: string | null, login_at: string, last_seen: string, expires_at: string,
 *   device: string | null, os: string | null, browser: string | null, ip: string | null, last_ip: string | null,
 *   on_behalf_by: string | null}} Session
 * @typedef {{code: string, message: string | null, at: string}} Ended
 * @typedef {{code: string, message: string | null, refused: Session | null}} Why
 * @typedef {({live: true, session: Session, ended: null} | {live: false, session: null, ended: Ended | null}) & Why} Validation
 * @typedef {{url?: string, originalUrl?: string, headers: {cookie?: string, host?: string}}} Request
 * @typedef {{kind: string, uid?: string, session_id?: string, at?: string, login_until?: string}} Event
 * @typedef {{jti: string, sub: string, auth_time?: number}} Claims
 * @typedef {{code: string, message: string | null}} Refusal
 * @typedef {{session: any, sessionID: string, ip?: string, headers: {[name: string]: any}, presenceSession?: Session}} ExpressRequest
 */

import { createHash } from "node:crypto";

const SILENCE = 40_000; // ms; the service sends a comment after 15 s without an event

/** The service refused a call. `status` is that of HTTP; `problem` has `detail`, and `code` or `field` if there is one. */
export class PresenceError extends Error {
  /** @param {number} status @param {any} problem */
  constructor(status, problem) {
    super(problem.detail ?? problem.title ?? `The service answered ${status}.`);
    this.status = status;
    this.problem = problem;
  }
}

const YEAR = 365 * 86_400; // seconds
const AWAY = 2000; // ms for which the service is not asked again after a failure
const QUIET = 60_000; // ms between two warnings
const MAX_KNOWN = 20_000; // sessions that a process remembers for `grace`

const MAX_COOKIES = 4; // that are tried
const TOKEN = /^[\w-]{1,342}\.[\w-]{8,128}\.[\w-]{43}$/;

/** @param {Request} req @param {string} name @returns {string[]} */
function cookiesOf(req, name) {
  const parts = (req.headers.cookie ?? "").split(";").map((part) => part.trim());
  const values = parts.filter((part) => part.startsWith(`${name}=`)).map((part) => part.slice(name.length + 1).trim());
  return [...new Set(values.map((value) => value.replace(/^"+|"+$/g, "")))].filter((value) => value);
}

/**
 * The tokens in the cookies of this name. A browser sends several if an earlier version of the site set another path or
 * domain: pass them all to `validate`.
 * @param {Request} req @param {string} [name] @returns {string[]}
 */
export function tokensOf(req, name = "presence") {
  return cookiesOf(req, name).filter((value) => TOKEN.test(value)).slice(0, MAX_COOKIES);
}

/**
 * Set-Cookie headers that delete the copies of a cookie of which the request has several: for the first parts of its path,
 * this host and the domains above it. Send them before a new cookie, at a sign-out, and with the refusal of a kicked session.
 * @param {Request} req @param {string} [name] @returns {string[]}
 */
export function copiesOf(req, name = "presence") {
  if (cookiesOf(req, name).length < 2) return [];
  const [path] = (req.originalUrl ?? req.url ?? "").split("?");
  const parts = path.split("/").filter((part) => /^[\x21-\x3a\x3c-\x7e]+$/.test(part));
  const paths = ["/", ...parts.map((_, end) => `/${parts.slice(0, end + 1).join("/")}`)].slice(0, 3);
  const host = (req.headers.host ?? "").split(":")[0].toLowerCase();
  const labels = /^([a-z0-9-]+\.)+[a-z][a-z0-9-]*$/.test(host) ? host.split(".") : [];
  const domains = ["", ...labels.slice(1).map((_, end) => labels.slice(labels.length - 2 - end).join("."))];
  const deleted = (/** @type {string} */ domain, /** @type {string} */ path) =>
    `${name}=; Path=${path}; Max-Age=0;${domain && ` Domain=${domain};`} HttpOnly; Secure; SameSite=Lax`;
  return domains.slice(0, 3).flatMap((domain) => paths.map((path) => deleted(domain, path)));
}

export class Presence {
  #url;
  #headers;
  #timeout;

  /**
   * @param {object} options
   * @param {string} options.url address of `presence serve`
   * @param {string} [options.key] API key with the scopes `record` and `read`, and `kick` to kick
   * @param {number} [options.timeout] ms for a call
   */
  constructor({ url, key, timeout = 2000 }) {
    this.#url = url.replace(/\/$/, "");
    this.#headers = { "Content-Type": "application/json", ...(key && { Authorization: `Bearer ${key}` }) };
    this.#timeout = timeout;
  }

  /** @param {string} method @param {string} path @param {object} [body] @returns {Promise<any>} */
  async #call(method, path, body) {
    const signal = AbortSignal.timeout(this.#timeout);
    const answer = await fetch(this.#url + path, { method, headers: this.#headers, body: JSON.stringify(body), signal });
    const data = await answer.json().catch(() => ({}));
    if (!answer.ok) throw new PresenceError(answer.status, data);
    return data;
  }

  /**
   * Begin a session. A PresenceError with status 409 is a refusal: a block or a limit.
   * @param {{uid: string, [argument: string]: any}} row arguments of `login`, such as name, device, ip, user_agent
   * @returns {Promise<{token: string, session: Session, replaced: Session[]}>}
   */
  login(row) {
    return this.#call("POST", "/v1/sessions", row);
  }

  /**
   * Record a sign-in that your site refused. Never give a password. It rejects while the service is away: catch that.
   * @param {{who: string, why: string, is_uid?: boolean, ip?: string, user_agent?: string, app?: string}} failure who: the
   * uid (is_uid), or the text as it was typed; why: wrong_password, second_factor, unknown_name, locked or other
   * @returns {Promise<void>}
   */
  async loginFailed(failure) {
    await this.#call("POST", "/v1/failed-logins", failure);
  }

  /**
   * Is the session live? If so, the question is a heartbeat, unless `touch` is false. Of several tokens the first live
   * one counts; a kicked session counts before all others.
   * @param {string | string[] | {uid: string, session_id: string}} token a token, those of `tokensOf`, or a session of a
   * site with session ids of its own
   * @param {{ip?: string, touch?: boolean}} [options]
   * @returns {Promise<Validation>}
   */
  validate(token, options = {}) {
    const named = Array.isArray(token) ? { tokens: token } : typeof token === "string" ? { token } : token;
    return this.#call("POST", "/v1/validate", { ...named, ...options });
  }

  /**
   * Note that these sessions were seen. Returns those that are not live.
   * @param {string[]} refs `uid:session_id`
   * @returns {Promise<string[]>}
   */
  async heartbeats(refs) {
    return (await this.#call("POST", "/v1/heartbeats", { refs })).offline;
  }

  /** End a session for its user. @param {string} uid @param {string} session_id @returns {Promise<boolean>} */
  async logout(uid, session_id) {
    const path = `/v1/users/${encodeURIComponent(uid)}/sessions/${encodeURIComponent(session_id)}`;
    return (await this.#call("DELETE", path)).ended;
  }

  /** End all other sessions of this user. @param {string} uid @param {string} session_id @returns {Promise<Session[]>} */
  async logoutOthers(uid, session_id) {
    const path = `/v1/users/${encodeURIComponent(uid)}/sessions/${encodeURIComponent(session_id)}/logout-others`;
    return (await this.#call("POST", path, {})).ended;
  }

  /** A user's live sessions, newest login first: scope `read`. @param {string} uid @returns {Promise<Session[]>} */
  async sessions(uid) {
    return (await this.#call("GET", `/v1/users/${encodeURIComponent(uid)}/sessions`)).items;
  }

  /**
   * End sessions for staff.
   * @param {{uid: string, session_id?: string, reason: string, message?: string, block_for?: number}} body
   * @returns {Promise<{kicked: Session[]}>}
   */
  kick(body) {
    return this.#call("POST", "/v1/kicks", body);
  }

  /**
   * The sessions that ended since then, in pages.
   * @param {Date} since
   * @returns {AsyncGenerator<{session_id: string}>}
   */
  async *ended(since) {
    for (let cursor = ""; cursor !== null; ) {
      const query = new URLSearchParams({ since: since.toISOString(), limit: "1000", ...(cursor && { cursor }) });
      const page = await this.#call("GET", `/v1/ended?${query}`);
      yield* page.items;
      cursor = page.next_cursor ?? null;
    }
  }

  /**
   * Logins and ends as they happen, without end: after a lost connection it continues where it stopped. Kinds are those
   * of the service, and `connected` at each begin. After a `gap` events are missing: read the lists again.
   * @param {{signal?: AbortSignal, onAlive?: () => void}} [options] onAlive: called when the service shows that it lives
   * @returns {AsyncGenerator<Event>}
   */
  async *events({ signal, onAlive } = {}) {
    let after = "";
    for (let wait = 100; !signal?.aborted; wait = Math.min(2 * wait, 5000)) {
      const silence = new AbortController();
      let timer = setTimeout(() => silence.abort(), SILENCE);
      try {
        const headers = { ...this.#headers, ...(after && { "Last-Event-ID": after }) };
        const signals = signal ? [signal, silence.signal] : [silence.signal];
        const answer = await fetch(`${this.#url}/v1/events`, { headers, signal: AbortSignal.any(signals) });
        if (!answer.ok || !answer.body) throw new PresenceError(answer.status, await answer.json().catch(() => ({})));
        let text = "";
        let connected = false;
        for await (const chunk of answer.body.pipeThrough(new TextDecoderStream())) {
          clearTimeout(timer);
          timer = setTimeout(() => silence.abort(), SILENCE);
          const frames = (text + chunk).split("\n\n");
          text = frames.pop() ?? "";
          for (const frame of frames) {
            after = /^id: (.*)$/m.exec(frame)?.[1] ?? after;
            const data = /^data: (.*)$/m.exec(frame)?.[1];
            if (!connected) yield { kind: "connected" };
            connected = true;
            wait = 100;
            if (data) yield JSON.parse(data);
          }
          onAlive?.();
        }
      } catch (error) {
        if (error instanceof PresenceError && [401, 403].includes(error.status)) throw error;
        if (error instanceof PresenceError && error.status < 500 && after) {
          after = ""; // the store was replaced
          yield { kind: "gap" };
        }
      } finally {
        clearTimeout(timer);
        silence.abort();
      }
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
  }
}

/**
 * End every live session that the cookies of a request name: at a sign-out, and before a sign-in.
 * @param {Presence} presence @param {Request} req
 * @param {{name?: string, onBehalf?: boolean}} [options] onBehalf: also a session of staff on behalf of a user; a sign-in
 * ends none
 * @returns {Promise<void>}
 */
export async function signOut(presence, req, { name = "presence", onBehalf = true } = {}) {
  for (const token of tokensOf(req, name)) {
    const { session, refused } = await presence.validate(token, { touch: false });
    const found = session ?? refused;
    if (found && (onBehalf || !found.on_behalf_by)) await presence.logout(found.uid, found.session_id);
  }
}

/**
 * For a site with Express and express-session: each of its sessions is one here, under the SHA-256 of its id. Put `check`
 * behind express-session.
 */
export class ExpressSessions {
  #presence;
  #options;
  /** @type {Map<string, number>} */
  #seen = new Map();
  #awayUntil = -Infinity;
  #saidAt = -Infinity;

  /**
   * @param {Presence} presence
   * @param {object} [options]
   * @param {"observe" | "adopt" | "enforce"} [options.mode] observe: no request is refused, and no session begins; adopt: a
   * session that is unknown here begins; enforce: it is refused
   * @param {(req: any) => string | number | null | undefined} [options.userOf] the user whom the site has signed in
   * @param {"closed" | "grace" | "open"} [options.onUnavailable] without the service: 503; sessions that this process has
   * checked within `grace` pass, others get 503; or all pass
   * @param {number} [options.grace] seconds
   * @param {number} [options.ttl] seconds for which the store keeps a session whose cookie has no lifetime
   * @param {(req: any, res: any, why: Refusal) => void} [options.onEnded] the answer to a request whose session has ended.
   * The site's own session is destroyed before
   * @param {(error: unknown) => void} [options.onError] called with failed calls, at most once a minute
   */
  constructor(presence, options = {}) {
    this.#presence = presence;
    this.#options = {
      mode: /** @type {"observe" | "adopt" | "enforce"} */ ("enforce"),
      userOf: (/** @type {any} */ req) => req.session?.userId,
      onUnavailable: /** @type {"closed" | "grace" | "open"} */ ("closed"),
      grace: 60,
      ttl: 86_400,
      onEnded: (/** @type {any} */ _req, /** @type {any} */ res, /** @type {Refusal} */ why) => res.status(401).json(why),
      onError: (/** @type {unknown} */ error) => console.warn("presence cannot check sessions:", error),
      ...options,
    };
  }

  /**
   * The middleware. `req.presenceSession` is then the session. It never throws in the mode `observe`.
   * @param {any} req @param {any} res @param {(error?: unknown) => void} next
   */
  check = async (req, res, next) => {
    const named = this.#nameOf(req);
    if (!named) return next();
    const { mode, onEnded } = this.#options;
    /** @type {Refusal} */
    let why;
    try {
      const { session, ended, code, message } = await this.#ask(() => this.#presence.validate(named, { ip: req.ip }));
      req.presenceSession = session ?? undefined;
      if (session) this.#note(named.session_id);
      if (session || mode === "observe") return next();
      if (code === "unknown" && mode === "adopt") {
        req.presenceSession = (await this.#ask(() => this.#presence.login(this.#rowOf(req, named)))).session;
        this.#note(named.session_id);
        return next();
      }
      why = { code: ended?.code ?? code, message: ended?.message ?? message };
    } catch (error) {
      if (!isRefusal(error)) return mode === "observe" || this.#passes(named) ? next() : unavailable(res);
      why = { code: error.problem.code, message: error.message };
    }
    this.#seen.delete(named.session_id);
    req.session.destroy((/** @type {unknown} */ error) => (error ? next(error) : onEnded(req, res, why)));
  };

  /**
   * Sign a user in, once you have checked the password: ends the browser's session of before, gives express-session a new
   * id, and begins the session. A PresenceError with status 409 is a refusal, whose message is for the visitor: no user is
   * signed in then. Without the service it throws, except with `open` and in the mode `observe`.
   * @param {any} req
   * @param {(session: any) => void} fill writes the user into the new session of express-session
   * @param {{name?: string, device?: string, [argument: string]: any}} [row] further arguments of `login`
   * @returns {Promise<void>}
   */
  async signIn(req, fill, row = {}) {
    await this.signOut(req);
    await new Promise((resolve, reject) =>
      req.session.regenerate((/** @type {unknown} */ error) => (error ? reject(error) : resolve(undefined))));
    fill(req.session);
    try {
      await this.record(req, row);
    } catch (error) {
      await new Promise((resolve) => req.session.destroy(resolve));
      throw error;
    }
  }

  /**
   * Begin the session of a user whom the site has signed in already, as Passport does in `req.login`.
   * @param {any} req @param {{name?: string, device?: string, [argument: string]: any}} [row] @returns {Promise<void>}
   */
  async record(req, row = {}) {
    const named = this.#nameOf(req);
    if (!named) throw new TypeError("No user is signed in: userOf(req) has none.");
    const { mode, onUnavailable } = this.#options;
    try {
      await this.#ask(() => this.#presence.login({ ...this.#rowOf(req, named), ...row }));
    } catch (error) {
      if (mode !== "observe" && (isRefusal(error) || onUnavailable !== "open")) throw error;
    }
  }

  /**
   * End the session of this browser; your code then destroys its own. Returns whether it was live; also false without the
   * service, so that a visitor can always sign out.
   * @param {any} req @returns {Promise<boolean>}
   */
  async signOut(req) {
    const named = this.#nameOf(req);
    if (!named) return false;
    this.#seen.delete(named.session_id);
    return this.#ask(() => this.#presence.logout(named.uid, named.session_id)).catch(() => false);
  }

  /**
   * The user's own devices, newest login first; `current` is this one. Scope `read`.
   * @param {any} req @returns {Promise<(Session & {current: boolean})[]>}
   */
  async devices(req) {
    const named = this.#nameOf(req);
    const found = named ? await this.#ask(() => this.#presence.sessions(named.uid)) : [];
    return found.map((session) => ({ ...session, current: session.session_id === named?.session_id }));
  }

  /** The user signs out one device. @param {any} req @param {string} session_id of `devices` @returns {Promise<boolean>} */
  async signOutDevice(req, session_id) {
    const named = this.#nameOf(req);
    return named ? this.#ask(() => this.#presence.logout(named.uid, session_id)) : false;
  }

  /** The user signs out all other devices. Returns their number. @param {any} req @returns {Promise<number>} */
  async signOutOthers(req) {
    const named = this.#nameOf(req);
    return named ? (await this.#ask(() => this.#presence.logoutOthers(named.uid, named.session_id))).length : 0;
  }

  /** @param {any} req @returns {{uid: string, session_id: string} | null} */
  #nameOf(req) {
    const user = req.session ? this.#options.userOf(req) : null;
    if (user === null || user === undefined || user === "") return null;
    return { uid: String(user), session_id: createHash("sha256").update(req.sessionID).digest("base64url") };
  }

  /** @param {any} req @param {{uid: string, session_id: string}} named */
  #rowOf(req, named) {
    const lifetime = req.session.cookie?.originalMaxAge;
    const life = Math.ceil(lifetime ? lifetime / 1000 : this.#options.ttl);
    const idle_timeout = Math.min(Math.max(1, life), 10 * YEAR);
    const user_agent = req.headers["user-agent"];
    return { ...named, ip: req.ip, user_agent, idle_timeout, absolute_timeout: Math.max(idle_timeout, YEAR) };
  }

  /** @template T @param {() => Promise<T>} call @returns {Promise<T>} */
  async #ask(call) {
    if (performance.now() < this.#awayUntil) throw new Error("The service did not answer a moment ago.");
    try {
      return await call();
    } catch (error) {
      if (isRefusal(error)) throw error;
      const now = performance.now();
      this.#awayUntil = now + AWAY;
      if (now - this.#saidAt > QUIET) {
        this.#saidAt = now;
        this.#options.onError(error);
      }
      throw error;
    }
  }

  /** @param {string} session_id */
  #note(session_id) {
    this.#seen.delete(session_id);
    this.#seen.set(session_id, performance.now());
    if (this.#seen.size > MAX_KNOWN) this.#seen.delete(/** @type {string} */ (this.#seen.keys().next().value));
  }

  /** @param {{session_id: string}} named */
  #passes({ session_id }) {
    const { onUnavailable, grace } = this.#options;
    if (onUnavailable !== "grace") return onUnavailable === "open";
    return performance.now() - (this.#seen.get(session_id) ?? -Infinity) <= grace * 1000;
  }
}

/** A block, a limit, or a session that has ended. @param {unknown} error @returns {error is PresenceError} */
function isRefusal(error) {
  return error instanceof PresenceError && error.status === 409;
}

/** @param {any} res */
function unavailable(res) {
  res.status(503).set("Retry-After", "2").json({ code: "unavailable", message: null });
}

/** The sessions that ended recently, in memory: a question costs no call. One object for a process. */
export class Revocations {
  #presence;
  #keep;
  #maxStale;
  #beatInterval;
  /** @type {Map<string, number>} */
  #forgetAt = new Map();
  /** @type {Set<() => void>} */
  #waiting = new Set();
  #seen = new Set();
  #loginUntil = -1;
  #aliveAt = -Infinity;
  #stop = new AbortController();

  /**
   * @param {Presence} presence
   * @param {object} [options]
   * @param {number} [options.keep] seconds; at least as long as a JWT lives
   * @param {number} [options.maxStale] seconds without the service after which every session counts as revoked
   * @param {number} [options.heartbeat] seconds between two heartbeats of an active session
   */
  constructor(presence, { keep = 3600, maxStale = 30, heartbeat = 30 } = {}) {
    this.#presence = presence;
    this.#keep = keep * 1000;
    this.#maxStale = maxStale * 1000;
    this.#beatInterval = heartbeat * 1000;
  }

  /** Start to listen. Resolves when all recent ends are known; rejects if the key is refused. @returns {Promise<void>} */
  start() {
    const timer = setInterval(() => this.#beat(), this.#beatInterval);
    timer.unref();
    this.#stop.signal.addEventListener("abort", () => clearInterval(timer));
    return new Promise((resolve, reject) => this.#listen(resolve).catch(reject));
  }

  /** Stop to listen. From then on every session counts as revoked. */
  close() {
    this.#aliveAt = -Infinity;
    this.#stop.abort();
  }

  /**
   * Has the session of this JWT ended? If not, the question is a heartbeat. `jti` is the session id, `auth_time` its login
   * time in seconds with their fraction; a JWT without it counts as revoked after any "Sign out everyone".
   * @param {Claims} claims
   */
  isRevoked({ jti, sub, auth_time }) {
    if (this.#hasEnded(jti, auth_time) || performance.now() - this.#aliveAt > this.#maxStale) return true;
    this.#seen.add(`${sub}:${jti}`);
    return false;
  }

  /**
   * Resolves when the session has ended, or when the signal is aborted (false).
   * @param {Claims} claims
   * @param {AbortSignal} signal for example that of the request
   * @returns {Promise<boolean>}
   */
  whenEnded({ jti, auth_time }, signal) {
    return new Promise((resolve) => {
      const look = () => {
        const ended = this.#hasEnded(jti, auth_time);
        if (!ended && !signal.aborted) return;
        this.#waiting.delete(look);
        resolve(ended);
      };
      this.#waiting.add(look);
      signal.addEventListener("abort", look, { once: true });
      look();
    });
  }

  /** @param {string} jti @param {number} [auth_time] */
  #hasEnded(jti, auth_time) {
    return this.#forgetAt.has(jti) || Math.round((auth_time ?? 0) * 1000) <= this.#loginUntil;
  }

  /** @param {() => void} ready */
  async #listen(ready) {
    let complete = false;
    const onAlive = () => {
      if (complete) this.#aliveAt = performance.now();
    };
    for await (const event of this.#presence.events({ signal: this.#stop.signal, onAlive })) {
      if (event.kind === "gap") complete = false;
      if (event.kind === "revoked" && event.login_until) this.#loginUntil = Date.parse(event.login_until);
      // A session that must sign in again is refused like an ended one, until its visitor has.
      const { kind, session_id = "" } = event;
      if (kind === "reauthenticated") this.#forgetAt.delete(session_id);
      else if (session_id && kind !== "login") this.#note(session_id);
      while (!complete && !this.#stop.signal.aborted) {
        try {
          for await (const { session_id } of this.#presence.ended(new Date(Date.now() - this.#keep))) this.#note(session_id);
          complete = true;
          onAlive();
          ready();
        } catch (error) {
          if (error instanceof PresenceError && [401, 403].includes(error.status)) throw error;
          await new Promise((resolve) => setTimeout(resolve, 500));
        }
      }
      for (const look of [...this.#waiting]) look();
    }
  }

  /** @param {string} session_id */
  #note(session_id) {
    const now = performance.now();
    this.#forgetAt.delete(session_id); // so that the order stays that of the times
    this.#forgetAt.set(session_id, now + this.#keep);
    for (const [id, forgetAt] of this.#forgetAt) {
      if (forgetAt > now) break;
      this.#forgetAt.delete(id);
    }
  }

  async #beat() {
    const refs = [...this.#seen];
    this.#seen.clear();
    for (let first = 0; first < refs.length; first += 1000) {
      await this.#presence.heartbeats(refs.slice(first, first + 1000)).catch(() => {}); // the next question is one again
    }
  }
}
