/**
 * The tokens in the cookies of this name. A browser sends several if an earlier version of the site set another path or
 * domain: pass them all to `validate`.
 * @param {Request} req @param {string} [name] @returns {string[]}
 */
export function tokensOf(req: Request, name?: string): string[];
/**
 * Set-Cookie headers that delete the copies of a cookie of which the request has several: for the first parts of its path,
 * this host and the domains above it. Send them before a new cookie, at a sign-out, and with the refusal of a kicked session.
 * @param {Request} req @param {string} [name] @returns {string[]}
 */
export function copiesOf(req: Request, name?: string): string[];
/**
 * End every live session that the cookies of a request name: at a sign-out, and before a sign-in.
 * @param {Presence} presence @param {Request} req
 * @param {{name?: string, onBehalf?: boolean}} [options] onBehalf: also a session of staff on behalf of a user; a sign-in
 * ends none
 * @returns {Promise<void>}
 */
export function signOut(presence: Presence, req: Request, { name, onBehalf }?: {
    name?: string;
    onBehalf?: boolean;
}): Promise<void>;
/** The service refused a call. `status` is that of HTTP; `problem` has `detail`, and `code` or `field` if there is one. */
export class PresenceError extends Error {
    /** @param {number} status @param {any} problem */
    constructor(status: number, problem: any);
    status: number;
    problem: any;
}
export class Presence {
    /**
     * @param {object} options
     * @param {string} options.url address of `presence serve`
     * @param {string} [options.key] API key with the scopes `record` and `read`, and `kick` to kick
     * @param {number} [options.timeout] ms for a call
     */
    constructor({ url, key, timeout }: {
        url: string;
        key?: string | undefined;
        timeout?: number | undefined;
    });
    /**
     * Begin a session. A PresenceError with status 409 is a refusal: a block or a limit.
     * @param {{uid: string, [argument: string]: any}} row arguments of `login`, such as name, device, ip, user_agent
     * @returns {Promise<{token: string, session: Session, replaced: Session[]}>}
     */
    login(row: {
        uid: string;
        [argument: string]: any;
    }): Promise<{
        token: string;
        session: Session;
        replaced: Session[];
    }>;
    /**
     * Record a sign-in that your site refused. Never give a password. It rejects while the service is away: catch that.
     * @param {{who: string, why: string, is_uid?: boolean, ip?: string, user_agent?: string, app?: string}} failure who: the
     * uid (is_uid), or the text as it was typed; why: wrong_password, second_factor, unknown_name, locked or other
     * @returns {Promise<void>}
     */
    loginFailed(failure: {
        who: string;
        why: string;
        is_uid?: boolean;
        ip?: string;
        user_agent?: string;
        app?: string;
    }): Promise<void>;
    /**
     * Is the session live? If so, the question is a heartbeat, unless `touch` is false. Of several tokens the first live
     * one counts; a kicked session counts before all others.
     * @param {string | string[] | {uid: string, session_id: string}} token a token, those of `tokensOf`, or a session of a
     * site with session ids of its own
     * @param {{ip?: string, touch?: boolean}} [options]
     * @returns {Promise<Validation>}
     */
    validate(token: string | string[] | {
        uid: string;
        session_id: string;
    }, options?: {
        ip?: string;
        touch?: boolean;
    }): Promise<Validation>;
    /**
     * Note that these sessions were seen. Returns those that are not live.
     * @param {string[]} refs `uid:session_id`
     * @returns {Promise<string[]>}
     */
    heartbeats(refs: string[]): Promise<string[]>;
    /** End a session for its user. @param {string} uid @param {string} session_id @returns {Promise<boolean>} */
    logout(uid: string, session_id: string): Promise<boolean>;
    /** End all other sessions of this user. @param {string} uid @param {string} session_id @returns {Promise<Session[]>} */
    logoutOthers(uid: string, session_id: string): Promise<Session[]>;
    /** A user's live sessions, newest login first: scope `read`. @param {string} uid @returns {Promise<Session[]>} */
    sessions(uid: string): Promise<Session[]>;
    /**
     * End sessions for staff.
     * @param {{uid: string, session_id?: string, reason: string, message?: string, block_for?: number}} body
     * @returns {Promise<{kicked: Session[]}>}
     */
    kick(body: {
        uid: string;
        session_id?: string;
        reason: string;
        message?: string;
        block_for?: number;
    }): Promise<{
        kicked: Session[];
    }>;
    /**
     * The sessions that ended since then, in pages.
     * @param {Date} since
     * @returns {AsyncGenerator<{session_id: string}>}
     */
    ended(since: Date): AsyncGenerator<{
        session_id: string;
    }>;
    /**
     * Logins and ends as they happen, without end: after a lost connection it continues where it stopped. Kinds are those
     * of the service, and `connected` at each begin. After a `gap` events are missing: read the lists again.
     * @param {{signal?: AbortSignal, onAlive?: () => void}} [options] onAlive: called when the service shows that it lives
     * @returns {AsyncGenerator<Event>}
     */
    events({ signal, onAlive }?: {
        signal?: AbortSignal;
        onAlive?: () => void;
    }): AsyncGenerator<Event>;
    #private;
}
/**
 * For a site with Express and express-session: each of its sessions is one here, under the SHA-256 of its id. Put `check`
 * behind express-session.
 */
export class ExpressSessions {
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
    constructor(presence: Presence, options?: {
        mode?: "enforce" | "observe" | "adopt" | undefined;
        userOf?: ((req: any) => string | number | null | undefined) | undefined;
        onUnavailable?: "closed" | "grace" | "open" | undefined;
        grace?: number | undefined;
        ttl?: number | undefined;
        onEnded?: ((req: any, res: any, why: Refusal) => void) | undefined;
        onError?: ((error: unknown) => void) | undefined;
    });
    /**
     * The middleware. `req.presenceSession` is then the session. It never throws in the mode `observe`.
     * @param {any} req @param {any} res @param {(error?: unknown) => void} next
     */
    check: (req: any, res: any, next: (error?: unknown) => void) => Promise<void>;
    /**
     * Sign a user in, once you have checked the password: ends the browser's session of before, gives express-session a new
     * id, and begins the session. A PresenceError with status 409 is a refusal, whose message is for the visitor: no user is
     * signed in then. Without the service it throws, except with `open` and in the mode `observe`.
     * @param {any} req
     * @param {(session: any) => void} fill writes the user into the new session of express-session
     * @param {{name?: string, device?: string, [argument: string]: any}} [row] further arguments of `login`
     * @returns {Promise<void>}
     */
    signIn(req: any, fill: (session: any) => void, row?: {
        name?: string;
        device?: string;
        [argument: string]: any;
    }): Promise<void>;
    /**
     * Begin the session of a user whom the site has signed in already, as Passport does in `req.login`.
     * @param {any} req @param {{name?: string, device?: string, [argument: string]: any}} [row] @returns {Promise<void>}
     */
    record(req: any, row?: {
        name?: string;
        device?: string;
        [argument: string]: any;
    }): Promise<void>;
    /**
     * End the session of this browser; your code then destroys its own. Returns whether it was live; also false without the
     * service, so that a visitor can always sign out.
     * @param {any} req @returns {Promise<boolean>}
     */
    signOut(req: any): Promise<boolean>;
    /**
     * The user's own devices, newest login first; `current` is this one. Scope `read`.
     * @param {any} req @returns {Promise<(Session & {current: boolean})[]>}
     */
    devices(req: any): Promise<(Session & {
        current: boolean;
    })[]>;
    /** The user signs out one device. @param {any} req @param {string} session_id of `devices` @returns {Promise<boolean>} */
    signOutDevice(req: any, session_id: string): Promise<boolean>;
    /** The user signs out all other devices. Returns their number. @param {any} req @returns {Promise<number>} */
    signOutOthers(req: any): Promise<number>;
    #private;
}
/** The sessions that ended recently, in memory: a question costs no call. One object for a process. */
export class Revocations {
    /**
     * @param {Presence} presence
     * @param {object} [options]
     * @param {number} [options.keep] seconds; at least as long as a JWT lives
     * @param {number} [options.maxStale] seconds without the service after which every session counts as revoked
     * @param {number} [options.heartbeat] seconds between two heartbeats of an active session
     */
    constructor(presence: Presence, { keep, maxStale, heartbeat }?: {
        keep?: number | undefined;
        maxStale?: number | undefined;
        heartbeat?: number | undefined;
    });
    /** Start to listen. Resolves when all recent ends are known; rejects if the key is refused. @returns {Promise<void>} */
    start(): Promise<void>;
    /** Stop to listen. From then on every session counts as revoked. */
    close(): void;
    /**
     * Has the session of this JWT ended? If not, the question is a heartbeat. `jti` is the session id, `auth_time` its login
     * time in seconds with their fraction; a JWT without it counts as revoked after any "Sign out everyone".
     * @param {Claims} claims
     */
    isRevoked({ jti, sub, auth_time }: Claims): boolean;
    /**
     * Resolves when the session has ended, or when the signal is aborted (false).
     * @param {Claims} claims
     * @param {AbortSignal} signal for example that of the request
     * @returns {Promise<boolean>}
     */
    whenEnded({ jti, auth_time }: Claims, signal: AbortSignal): Promise<boolean>;
    #private;
}
/**
 * A client of the HTTP service of presence_core, for Node 20 and newer. One file without dependencies: copy it.
 *
 * `Presence` calls the service. `tokensOf`, `copiesOf` and `signOut` are for sites with cookies.
 * `ExpressSessions` is for sites with Express and express-session.
 * `Revocations` keeps the ended sessions in memory, for JWTs and for pages that close by themselves after a kick.
 */
export type Session = {
    uid: string;
    session_id: string;
    name: string | null;
    login_at: string;
    last_seen: string;
    expires_at: string;
    device: string | null;
    os: string | null;
    browser: string | null;
    ip: string | null;
    last_ip: string | null;
    on_behalf_by: string | null;
};
/**
 * A client of the HTTP service of presence_core, for Node 20 and newer. One file without dependencies: copy it.
 *
 * `Presence` calls the service. `tokensOf`, `copiesOf` and `signOut` are for sites with cookies.
 * `ExpressSessions` is for sites with Express and express-session.
 * `Revocations` keeps the ended sessions in memory, for JWTs and for pages that close by themselves after a kick.
 */
export type Ended = {
    code: string;
    message: string | null;
    at: string;
};
/**
 * A client of the HTTP service of presence_core, for Node 20 and newer. One file without dependencies: copy it.
 *
 * `Presence` calls the service. `tokensOf`, `copiesOf` and `signOut` are for sites with cookies.
 * `ExpressSessions` is for sites with Express and express-session.
 * `Revocations` keeps the ended sessions in memory, for JWTs and for pages that close by themselves after a kick.
 */
export type Why = {
    code: string;
    message: string | null;
    refused: Session | null;
};
/**
 * A client of the HTTP service of presence_core, for Node 20 and newer. One file without dependencies: copy it.
 *
 * `Presence` calls the service. `tokensOf`, `copiesOf` and `signOut` are for sites with cookies.
 * `ExpressSessions` is for sites with Express and express-session.
 * `Revocations` keeps the ended sessions in memory, for JWTs and for pages that close by themselves after a kick.
 */
export type Validation = ({
    live: true;
    session: Session;
    ended: null;
} | {
    live: false;
    session: null;
    ended: Ended | null;
}) & Why;
/**
 * A client of the HTTP service of presence_core, for Node 20 and newer. One file without dependencies: copy it.
 *
 * `Presence` calls the service. `tokensOf`, `copiesOf` and `signOut` are for sites with cookies.
 * `ExpressSessions` is for sites with Express and express-session.
 * `Revocations` keeps the ended sessions in memory, for JWTs and for pages that close by themselves after a kick.
 */
export type Request = {
    url?: string;
    originalUrl?: string;
    headers: {
        cookie?: string;
        host?: string;
    };
};
/**
 * A client of the HTTP service of presence_core, for Node 20 and newer. One file without dependencies: copy it.
 *
 * `Presence` calls the service. `tokensOf`, `copiesOf` and `signOut` are for sites with cookies.
 * `ExpressSessions` is for sites with Express and express-session.
 * `Revocations` keeps the ended sessions in memory, for JWTs and for pages that close by themselves after a kick.
 */
export type Event = {
    kind: string;
    uid?: string;
    session_id?: string;
    at?: string;
    login_until?: string;
};
/**
 * A client of the HTTP service of presence_core, for Node 20 and newer. One file without dependencies: copy it.
 *
 * `Presence` calls the service. `tokensOf`, `copiesOf` and `signOut` are for sites with cookies.
 * `ExpressSessions` is for sites with Express and express-session.
 * `Revocations` keeps the ended sessions in memory, for JWTs and for pages that close by themselves after a kick.
 */
export type Claims = {
    jti: string;
    sub: string;
    auth_time?: number;
};
/**
 * A client of the HTTP service of presence_core, for Node 20 and newer. One file without dependencies: copy it.
 *
 * `Presence` calls the service. `tokensOf`, `copiesOf` and `signOut` are for sites with cookies.
 * `ExpressSessions` is for sites with Express and express-session.
 * `Revocations` keeps the ended sessions in memory, for JWTs and for pages that close by themselves after a kick.
 */
export type Refusal = {
    code: string;
    message: string | null;
};
/**
 * A client of the HTTP service of presence_core, for Node 20 and newer. One file without dependencies: copy it.
 *
 * `Presence` calls the service. `tokensOf`, `copiesOf` and `signOut` are for sites with cookies.
 * `ExpressSessions` is for sites with Express and express-session.
 * `Revocations` keeps the ended sessions in memory, for JWTs and for pages that close by themselves after a kick.
 */
export type ExpressRequest = {
    session: any;
    sessionID: string;
    ip?: string;
    headers: {
        [name: string]: any;
    };
    presenceSession?: Session;
};
