"""The middleware's settings (``Rules``), the user that the site names (``Visitor``) and the decision (``Verdict``)."""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final, Literal, get_args

from presence_core import validation as check
from presence_core.errors import InvalidArgument
from presence_core.models import Ended, PublicBlock, Session
from presence_core.web.cookies import SameSite, check_cookie
from presence_core.web.proxies import FORWARDED_FOR, Proxies

Mode = Literal["observe", "adopt", "enforce"]
Anonymous = Literal["refuse", "pass"]
OnUnavailable = Literal["closed", "grace", "open"]
_STRICTEST_FIRST: Final = get_args(OnUnavailable)
_PASSIVE: Final = re.compile(r"/.*|[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}(:[ \t]*[^\s].*)?")
State = Literal[
    "live",
    "adopted",
    "ended",
    "unknown",
    "anonymous",
    "preflight",
    "unavailable",
    "grace",
    "open",
    "refused",
    "sign_in_required",
    "authentication_too_old",
]


def hashed_id(secret: str) -> str:
    """A session id made from the site's own session key: its SHA-256, URL-safe, 43 characters.

    Session ids are shown to staff and kept in lists. A key that gives access must never be used as an id.
    """
    if not isinstance(secret, str) or not secret:
        raise InvalidArgument("secret", "must be text", "wrong_type")
    return urlsafe_b64encode(sha256(secret.encode()).digest()).rstrip(b"=").decode()


@dataclass(frozen=True, slots=True)
class Visitor:
    """The user that the site itself has signed in. ``user_of`` returns a Visitor, or only a uid."""

    uid: str  #: the user
    session_id: str | None = None
    """The site's own session id, public or hashed (``hashed_id``). With it the middleware sets no cookie."""
    login: Mapping[str, Any] = field(default_factory=dict)  #: other arguments of ``login``: name, aliases, device, …
    adopt: bool | None = None  #: whether to begin a session that is not known yet; None: yes in mode ``adopt``


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How the middleware decides.

    Paths are prefixes of whole segments: "/api" matches "/api" and "/api/x", not "/apix". "/" matches the start page
    only. If several prefixes match, the longest one applies.
    """

    mode: Mode = "enforce"
    """``observe`` records and never refuses. ``adopt`` begins a session for a user that ``user_of`` names and that has
    none yet, and refuses ended sessions. ``enforce`` passes live sessions only."""
    public: tuple[str, ...] = ()  #: paths where no request is refused: sign-in, static files
    anonymous: Anonymous = "refuse"  #: in ``enforce``: requests without a token whose user is not signed in
    on_unavailable: OnUnavailable = "closed"
    """While Redis is unreachable: ``closed`` answers 503. ``grace`` passes a session that this process validated within
    ``grace`` seconds. ``open`` passes all requests, those of other sessions as if they had none."""
    grace: float = 60.0  #: seconds, 1…3600
    routes: Mapping[str, OnUnavailable] = field(default_factory=dict)  #: path → ``on_unavailable`` for that path
    fresh: Mapping[str, int] = field(default_factory=dict)
    """Path → seconds: there, a session whose visitor authenticated longer ago is refused, also if ``public`` names the
    path, and while Redis is unreachable. Requests without a session follow the other rules. Not in mode ``adopt``: it
    does not know when a visitor authenticated."""
    passive: tuple[str, ...] = ()
    """Requests that are no activity of the visitor, such as polls and health checks. Each is a path, a header
    ("x-poll"), or a header with one of its values ("accept: text/event-stream"). They are validated like all others,
    but their session does not count as seen, and its deadline does not move."""
    keep_open: tuple[str, ...] = ()
    """Paths where a websocket or an event stream stays open when its session has ended. Elsewhere the middleware closes
    it, except in mode ``observe``."""
    heartbeat: float = 30.0  #: seconds between two heartbeats of a session, 1…3600
    cookie: str | None = "presence"
    """Name of the cookie that holds the token; None: no cookie is read. Of several cookies of this name, the first live
    session counts; four are tried."""
    bearer: bool = True
    """Also read ``Authorization: Bearer``. It has priority over the cookie; one that is not ours is ignored if there
    is a live cookie."""
    secure: bool = True  #: the Secure attribute of the cookie that ``adopt`` sets
    same_site: SameSite = "lax"  #: its SameSite attribute
    domain: str | None = None  #: its Domain attribute; None: this host only
    trusted_proxies: tuple[str, ...] = ()  #: networks whose ``address_from`` is trusted; "unix" for a Unix socket
    address_from: str = FORWARDED_FOR
    """The header in which trusted proxies report the visitor's address: "x-forwarded-for", "forwarded" (RFC 7239), or
    one that your proxy sets, such as "x-real-ip"."""
    breaker_failures: int = 3  #: failed calls in a row that open the breaker; 1…1000
    breaker_seconds: float = 5.0  #: seconds without calls while the breaker is open; 0.1…300
    on_move: Callable[[Session], object] | None = None
    """Called with a session that has moved (docs/use/moves.md), in its request, before the site receives it. A plain
    function. Its result is not used, and an error of it is logged: the request passes."""
    max_known: int = 20_000  #: sessions that this process remembers, for heartbeats and grace; 100…1,000,000

    def __post_init__(self) -> None:
        check.choice("mode", self.mode, Mode)
        check.choice("anonymous", self.anonymous, Anonymous)
        check.choice("on_unavailable", self.on_unavailable, OnUnavailable)
        _check_paths("public", self.public)
        if not isinstance(self.routes, Mapping):
            raise InvalidArgument("routes", "must be a dict of paths", "wrong_type")
        _check_paths("routes", self.routes)
        for choice in self.routes.values():
            check.choice("routes", choice, OnUnavailable)
        if not isinstance(self.fresh, Mapping):
            raise InvalidArgument("fresh", "must be a dict of paths", "wrong_type")
        _check_paths("fresh", self.fresh)
        for max_age in self.fresh.values():
            check.seconds("fresh", max_age)
        if self.fresh and self.mode == "adopt":
            raise InvalidArgument("fresh", 'must be empty in mode "adopt", which does not know when visitors signed in')
        _check_passive(self.passive)
        _check_paths("keep_open", self.keep_open)
        check.duration("grace", self.grace, 1, 3600)
        check.duration("heartbeat", self.heartbeat, 1, 3600)
        check.duration("breaker_seconds", self.breaker_seconds, 0.1, 300)
        check.whole("breaker_failures", self.breaker_failures, 1, 1000)
        check.whole("max_known", self.max_known, 100, 1_000_000)
        if not isinstance(self.bearer, bool):
            raise InvalidArgument("bearer", "must be True or False", "wrong_type")
        if self.on_move is not None and not callable(self.on_move):
            raise InvalidArgument("on_move", "must be a function that takes a session", "wrong_type")
        check.plain_function("on_move", self.on_move)
        if self.cookie is not None:
            try:
                check_cookie(self.cookie, secure=self.secure, same_site=self.same_site, domain=self.domain)
            except InvalidArgument as error:
                raise InvalidArgument(
                    "cookie" if error.field == "name" else error.field, error.rule, error.code
                ) from None
        Proxies(self.trusted_proxies, self.address_from)


def _check_paths(name: str, paths: object) -> None:
    good = isinstance(paths, Iterable) and not isinstance(paths, str)
    if not good or not all(isinstance(path, str) and path.startswith("/") for path in paths):  # type: ignore[attr-defined]
        raise InvalidArgument(name, "must hold paths that begin with /")


def _check_passive(passive: object) -> None:
    good = isinstance(passive, Iterable) and not isinstance(passive, str)
    if not good or not all(isinstance(item, str) and _PASSIVE.fullmatch(item) for item in passive):  # type: ignore[attr-defined]
        raise InvalidArgument("passive", 'must hold paths that begin with /, and headers such as "x-poll"')


def _is_ambiguous(path: str) -> bool:
    """Whether a path has "." or empty segments: the application may resolve it to another path."""
    return "//" in path or "/./" in path or "/../" in path or path.endswith(("/.", "/..")) or "\\" in path


def max_age_of(path: str, fresh: Mapping[str, int]) -> int | None:
    """The seconds of ``Rules.fresh`` for this path, None for no limit. The strictest ones for an ambiguous path."""
    if fresh and _is_ambiguous(path):
        return min(fresh.values())
    prefix = longest_prefix(path, fresh) if fresh else None
    return None if prefix is None else fresh[prefix]


def on_unavailable_of(path: str, rules: Rules) -> OnUnavailable:
    """What to do with a request for this path while Redis is unreachable. The strictest for an ambiguous path."""
    choices = (rules.on_unavailable, *rules.routes.values())
    if _is_ambiguous(path):
        return min(choices, key=_STRICTEST_FIRST.index)
    prefix = longest_prefix(path, rules.routes)
    return rules.on_unavailable if prefix is None else rules.routes[prefix]


def longest_prefix(path: str, prefixes: Iterable[str]) -> str | None:
    """The longest prefix that matches this path. None matches an ambiguous path."""
    if _is_ambiguous(path):
        return None
    longest = None
    for prefix in prefixes:
        stem = prefix.rstrip("/")
        if path == prefix or (stem and (path == stem or path.startswith(stem + "/"))):
            longest = prefix if longest is None or len(prefix) > len(longest) else longest
    return longest


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The decision about one request, and its reason."""

    passes: bool  #: whether the site receives the request
    state: State  #: the outcome, as the tally counts it
    ip: str | None = None  #: the visitor's address; None over a Unix socket, or if the peer has only a name
    session: Session | None = None  #: the live session, if there is one
    ended: Ended | None = None  #: why the session has ended, if that is known
    refusal: str | None = None  #: with state "refused" (the user may not log in): code of the reason
    sentence: str | None = None
    """With state "refused": the reason, as a sentence for the user. With "sign_in_required": staff's message."""
    known: Session | None = None
    """With "sign_in_required" and "authentication_too_old": the live session that is refused, so that the site knows
    whom to ask to sign in again. It lets no request pass."""
    max_age: int | None = None  #: with "authentication_too_old": seconds
    authenticated_for: float | None = None  #: with "live": seconds since the visitor authenticated
    block: PublicBlock | None = None  #: with refusal "blocked" or "block_rule"
    token: str | None = None  #: with state "adopted" or ``clears_cookies``: the token for the visitor's cookie
    clears_cookies: bool = False
    """With "ended": the request has several tokens, and that of a kicked session in a cookie. The answer deletes all
    cookies of our name but ``token``, so that the end is said once."""

    def __repr__(self) -> str:  # without the token: logs show this
        return f"Verdict(passes={self.passes}, state={self.state!r}, session={self.session!r}, ended={self.ended!r})"


class _Draft(Verdict):
    """A verdict while its fields are set: those of a frozen dataclass take three times as long to set."""

    __slots__ = ()
    __setattr__, __delattr__ = object.__setattr__, object.__delattr__


def live_verdict(session: Session, authenticated_for: float, ip: str | None) -> Verdict:
    """The verdict that nearly every request gets: its session is live."""
    draft: Any = object.__new__(_Draft)
    draft.passes, draft.state, draft.ip, draft.session = True, "live", ip, session
    draft.ended = draft.refusal = draft.sentence = draft.known = draft.max_age = draft.block = draft.token = None
    draft.authenticated_for, draft.clears_cookies = authenticated_for, False
    draft.__class__ = Verdict
    return draft  # type: ignore[no-any-return]


Users = Callable[[], "Visitor | str | None"]
