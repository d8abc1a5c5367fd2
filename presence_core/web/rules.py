"""What the middleware is told: Rules, checked when they are made; and what it tells: Visitor in, Verdict out."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

from presence_core import settings as check
from presence_core.errors import InvalidArgument
from presence_core.models import Ended, PublicBlock, Session
from presence_core.web.cookies import check_cookie
from presence_core.web.proxies import Proxies

MODES: Final = ("observe", "adopt", "enforce")
ON_UNAVAILABLE: Final = ("closed", "grace", "open")


def hashed_id(secret: str) -> str:
    """A session id for a site whose own session key is a bearer secret: its SHA-256, URL-safe, 43 characters.

    Session ids are shown to staff and kept in lists; a key that opens something must never be one.
    """
    if not isinstance(secret, str) or not secret:
        raise InvalidArgument("secret", "must be text")
    return urlsafe_b64encode(sha256(secret.encode()).digest()).rstrip(b"=").decode()


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who the site itself says is signed in. ``user_of`` answers this, or a uid alone."""

    uid: str
    session_id: str | None = None  #: the site's own, public or hashed (``hashed_id``); then no cookie of ours is needed
    login: Mapping[str, Any] = field(default_factory=dict)  #: more of login's arguments: name, aliases, device, …
    adopt: bool | None = None  #: whether one that is not known may begin now; None: in mode ``adopt``


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How the middleware decides. Paths are prefixes of whole segments: "/api" is "/api" and "/api/x", not "/apix";
    "/" is the start page alone. Of several that fit the longest holds."""

    mode: str = "enforce"
    """``observe`` records and never refuses; ``adopt`` gives a user whom ``user_of`` names a session on first sight and
    refuses what has ended; ``enforce`` passes live sessions only."""
    public: tuple[str, ...] = ()  #: paths where nobody is refused: sign-in, static files
    anonymous: str = "refuse"  #: in ``enforce``, who brings no token and is not signed in: "refuse", or "pass"
    on_unavailable: str = "closed"
    """When Redis is away: ``closed`` answers 503; ``grace`` passes a session that was validated here within ``grace``
    seconds; ``open`` passes everybody."""
    grace: float = 60.0  #: seconds, 1…3600
    routes: Mapping[str, str] = field(default_factory=dict)  #: path → on_unavailable there
    heartbeat: float = 30.0  #: a session is noted as seen at most once in so many seconds, 1…3600
    cookie: str | None = "presence"  #: where the token is looked for; None: in no cookie
    bearer: bool = True  #: look for it in ``Authorization: Bearer`` too, and first
    secure: bool = True  #: of the cookie that ``adopt`` sets
    same_site: str = "lax"
    domain: str | None = None
    trusted_proxies: tuple[str, ...] = ()  #: networks whose X-Forwarded-For is believed; "unix" for a Unix socket
    breaker_failures: int = 3  #: after so many in a row no call is made …
    breaker_seconds: float = 5.0  #: … for so long; 0.1…300
    max_known: int = 20_000  #: sessions remembered in this process, for heartbeats and grace; 100…1,000,000

    def __post_init__(self) -> None:
        _one_of("mode", self.mode, MODES)
        _one_of("anonymous", self.anonymous, ("refuse", "pass"))
        _one_of("on_unavailable", self.on_unavailable, ON_UNAVAILABLE)
        _paths("public", self.public)
        if not isinstance(self.routes, Mapping):
            raise InvalidArgument("routes", "must be a dict of paths")
        _paths("routes", self.routes)
        for choice in self.routes.values():
            _one_of("routes", choice, ON_UNAVAILABLE)
        number("grace", self.grace, 1, 3600)
        number("heartbeat", self.heartbeat, 1, 3600)
        number("breaker_seconds", self.breaker_seconds, 0.1, 300)
        check.whole("breaker_failures", self.breaker_failures, 1, 1000)
        check.whole("max_known", self.max_known, 100, 1_000_000)
        if not isinstance(self.bearer, bool):
            raise InvalidArgument("bearer", "must be True or False")
        if self.cookie is not None:
            try:
                check_cookie(self.cookie, secure=self.secure, same_site=self.same_site, domain=self.domain)
            except InvalidArgument as error:
                raise InvalidArgument("cookie" if error.field == "name" else error.field, error.rule) from None
        Proxies(self.trusted_proxies)


def number(name: str, value: object, low: float, high: float) -> float:
    """Seconds within limits."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise InvalidArgument(name, f"must be {low:g} to {high:g} seconds")
    return float(value)


def _one_of(name: str, value: object, words: tuple[str, ...]) -> None:
    if value not in words:
        raise InvalidArgument(name, "must be " + " or ".join(f'"{word}"' for word in words))


def _paths(name: str, paths: object) -> None:
    good = isinstance(paths, Iterable) and not isinstance(paths, str)
    if not good or not all(isinstance(path, str) and path.startswith("/") for path in paths):  # type: ignore[attr-defined]
        raise InvalidArgument(name, "must hold paths that begin with /")


def longest(path: str, prefixes: Iterable[str]) -> str | None:
    """The longest of the prefixes that this path is under. A path with "." or empty segments is under none: what a
    later hand makes of it is not known here."""
    if "//" in path or "/./" in path or "/../" in path or path.endswith(("/.", "/..")) or "\\" in path:
        return None
    found = None
    for prefix in prefixes:
        stem = prefix.rstrip("/")
        if path == prefix or (stem and (path == stem or path.startswith(stem + "/"))):
            found = prefix if found is None or len(prefix) > len(found) else found
    return found


@dataclass(frozen=True, slots=True)
class Asked:
    """What of a request matters here, whatever the framework calls it."""

    path: str
    cookie: str = ""  #: the Cookie header
    authorization: str = ""
    peer: str | None = None  #: who is connected; None for a Unix socket
    forwarded: str = ""  #: X-Forwarded-For, lines joined by commas
    user_agent: str | None = None
    preflight: bool = False  #: by its headers a CORS preflight (``is_preflight``): a browser's brings no credentials


def is_preflight(method: str, origin: object, asks_for: object) -> bool:
    """Whether a request is a CORS preflight, by its method, Origin and Access-Control-Request-Method."""
    return method == "OPTIONS" and bool(origin) and bool(asks_for)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What was decided, and why."""

    passes: bool
    state: str
    """"live", "adopted", "ended", "unknown", "anonymous", "preflight", "unavailable", "grace", "open" or "refused"."""
    ip: str | None = None  #: the visitor's address; None over a Unix socket, and where only a name is known
    session: Session | None = None
    ended: Ended | None = None  #: why it is over, where that is known
    refusal: str | None = None  #: of "refused" (a user who may not log in): the code
    sentence: str | None = None  #: … and the sentence for them
    block: PublicBlock | None = None  #: … and of "blocked" until when
    token: str | None = None  #: of "adopted": for the visitor's cookie

    def __repr__(self) -> str:  # without the token: logs show this
        return f"Verdict(passes={self.passes}, state={self.state!r}, session={self.session!r}, ended={self.ended!r})"


Users = Callable[[], "Visitor | str | None"]
