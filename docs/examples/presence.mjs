// @ts-check
/**
 * A client of the HTTP service of presence_core, for Node 20 and newer. One file without dependencies: copy it.
 *
 * `Presence` calls the service. `Revocations` keeps the ended sessions in memory, for JWTs and for pages that close by
 * themselves after a kick.
 *
 * @typedef {{uid: string, session_id: string, name: string | null, login_at: string, expires_at: string}} Session
 * @typedef {{code: string, message: string | null, at: string}} Ended
 * @typedef {{live: true, session: Session, ended: null} | {live: false, session: null, ended: Ended | null}} Validation
 * @typedef {{kind: string, uid?: string, session_id?: string, at?: string, login_until?: string}} Event
 * @typedef {{jti: string, sub: string, auth_time?: number}} Claims
 */

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
   * Is the session live? If so, the question is a heartbeat, unless `touch` is false.
   * @param {string} token
   * @param {{ip?: string, touch?: boolean}} [options]
   * @returns {Promise<Validation>}
   */
  validate(token, options = {}) {
    return this.#call("POST", "/v1/validate", { token, ...options });
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
      if (event.kind === "reauthenticated") this.#forgetAt.delete(event.session_id);
      else if (event.session_id && event.kind !== "login") this.#note(event.session_id);
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
