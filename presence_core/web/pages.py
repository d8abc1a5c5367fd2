"""What a site's own pages call, without an API key: R1's counter, R5's visits, and the script that beats.

A caller is who their session token says, else a visitor known by a random cookie. The lists hold a digest of that
cookie, so nobody can read it there and take it for their own.
"""

from __future__ import annotations

import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from ipaddress import ip_address, ip_network
from typing import Annotated, Final, Protocol
from urllib.parse import urlsplit

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from presence_core.client import AsyncPresence
from presence_core.errors import InvalidArgument
from presence_core.web.cookies import read_cookie, set_cookie_header
from presence_core.web.problems import problem
from presence_core.web.proxies import Proxies
from presence_core.web.schemas import answer

VISITOR_COOKIE: Final = "presence_visitor"
VISITOR_SECONDS: Final = 30 * 86_400
MOST_LISTED: Final = 1000
PATHS: Final = ("/counter", "/visit", "/online", "/online/friends", "/goodbye", "/presence.js")

NO_PROXIES: Final = Proxies()

_FOREIGN: Final = "Pages of this origin are not served here, or not so."

_VISITOR = re.compile(r"[A-Za-z0-9_-]{22}")

SCRIPT: Final = """\
// <script src="https://presence.example/presence.js" data-seconds="30" data-beat="/visit" async></script>
(function (me) {
  var base = me.src.replace(/\\/presence\\.js.*$/, ""), seconds = Number(me.dataset.seconds) || 30, timer = 0;
  var how = { method: "POST", credentials: "include" }, asking = false, page;
  function at(path) { return base + path + "?page=" + page; }  // so that no late beat undoes this page's goodbye
  function rest() { asking = false; }  // one at a time: until the first is answered there is no cookie
  function beat() { if (!asking) { asking = true; fetch(at(me.dataset.beat || "/visit"), how).then(rest, rest); } }
  function wake() { clearInterval(timer); if (!document.hidden) { beat(); timer = setInterval(beat, seconds * 1000); } }
  function show() { page = Math.random().toString(36).slice(2) || "0"; asking = false; wake(); }
  document.addEventListener("visibilitychange", wake);
  addEventListener("pageshow", function (event) { if (event.persisted) show(); });
  addEventListener("pagehide", function () { clearInterval(timer); navigator.sendBeacon(at("/goodbye")); });
  show();
})(document.currentScript);
"""


class Visits(Protocol):
    """AsyncMinuteSetTracker, or what serves as one."""

    async def touch(self, member: str, now: float | None = None) -> int | None:
        """Seen."""

    async def count(self, within: int | None = None, now: float | None = None) -> int:
        """How many are online."""

    async def members(self, within: int | None = None, now: float | None = None) -> list[str]:
        """Who they are."""

    async def online_friends(self, friends_key: str, within: int | None = None, now: float | None = None) -> list[str]:
        """Which of them are in this set."""


class Counter(Protocol):
    """AsyncLastSeenTracker, or what serves as one."""

    async def touch(self, member: str, now: float | None = None) -> int:
        """Seen; how many are online."""

    async def forget(self, member: str) -> bool:
        """Gone."""


@dataclass(frozen=True, kw_only=True)
class Pages:
    """What pages are served, and to whom."""

    counter: Counter
    visits: Visits
    origins: Sequence[str] = ()  #: "https://shop.example"; pages of the service's own host are always allowed
    friends_key: str = ""  #: a SET or ZSET for each user, such as "friends:{uid}"; "": no /online/friends
    cookie: str = "presence"  #: the site's cookie that holds a session token
    public: bool = False  #: /online names everybody to anybody; else only to those who are signed in
    per_second: float = 5.0  #: requests of one address (IPv6: of one /64), in the long run
    burst: int = 30  #: and at once
    proxies: Proxies = NO_PROXIES  #: those whose X-Forwarded-For is believed

    def __post_init__(self) -> None:
        for origin in self.origins:
            parts = urlsplit(origin)
            is_http = parts.scheme in ("http", "https") and parts.netloc
            if not is_http or origin != f"{parts.scheme}://{parts.netloc}":
                raise InvalidArgument("origins", "must be like https://shop.example, without a path")
        if self.friends_key and "{uid}" not in self.friends_key:
            raise InvalidArgument("friends_key", "must hold {uid}")


class Buckets:
    """A token bucket for each address, the latest 10,000: a small thing in one process, against pages that run wild."""

    MOST = 10_000

    def __init__(self, per_second: float, burst: int) -> None:
        self._per_second = per_second
        self._burst = burst
        self._known: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, address: str, now: float) -> float:
        """0.0 where this request may pass; else in how many seconds the next one may."""
        left, at = self._known.pop(address, (float(self._burst), now))
        left = min(self._burst, left + (now - at) * self._per_second)
        self._known[address] = (left - 1 if left >= 1 else left), now
        if len(self._known) > self.MOST:
            self._known.popitem(last=False)
        return 0.0 if left >= 1 else (1 - left) / self._per_second


class Goodbyes:
    """Pages that were left of late, the latest 10,000: a beat that was on its way then must not bring its visitor back.
    Each process knows those that it was told of."""

    MOST = 10_000

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], None] = OrderedDict()

    def add(self, member: str, page: str) -> None:
        """This page of this visitor was left. A page that comes back has another name."""
        self._known[member, page] = None
        if len(self._known) > self.MOST:
            self._known.popitem(last=False)

    def __contains__(self, left: tuple[str, str | None]) -> bool:
        return left in self._known


class _Cors(CORSMiddleware):
    def preflight_response(self, request_headers: Headers) -> Response:
        answer = super().preflight_response(request_headers)
        return answer if answer.status_code < 400 else problem(403, _FOREIGN)


class PagesCors:
    """CORS for the pages' addresses, and for no other."""

    def __init__(self, app: ASGIApp, origins: Sequence[str]) -> None:
        self.app = app
        self.cors = _Cors(app, origins, allow_methods=["GET", "POST"], allow_credentials=True,
                          allow_headers=["Authorization"])  # fmt: skip

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_page = scope["type"] == "http" and scope["path"] in PATHS
        await (self.cors if is_page else self.app)(scope, receive, send)


@dataclass(frozen=True, slots=True)
class Guest:
    """Who calls from a page."""

    member: str  #: as trackers know them
    uid: str | None  #: with a live session
    cookie: str | None  #: for a visitor who had none


class Counted(BaseModel):
    """How many are online."""

    online: int


class Online(Counted):
    """Who they are: `members` is null for who may not see them."""

    members: list[str] | None


async def _guest(request: Request) -> Guest:
    """Let a page in: from an allowed origin, not too often. Says who it is."""
    pages: Pages = request.app.state.pages
    _check_origin(request, pages)
    forwarded = ",".join(request.headers.getlist("x-forwarded-for"))
    ip = pages.proxies.client(request.client.host if request.client else None, forwarded)
    buckets: Buckets = request.app.state.buckets
    if wait := buckets.take(_neighbourhood(ip), time.monotonic()):
        raise HTTPException(429, "Too many requests from this address.", {"Retry-After": str(int(wait) + 1)})
    cookies = "; ".join(request.headers.getlist("cookie"))
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    token = token.strip() if scheme.lower() == "bearer" else read_cookie(cookies, pages.cookie) or ""
    if token:
        presence: AsyncPresence = request.app.state.presence
        seen = await presence.validate(token, ip=ip)
        if seen.session:
            return Guest(seen.session.uid, seen.session.uid, None)
    visitor = read_cookie(cookies, VISITOR_COOKIE) or ""
    is_new = not _VISITOR.fullmatch(visitor)
    if is_new:
        visitor = secrets.token_urlsafe(16)
    member = f"visitor:{sha256(visitor.encode()).hexdigest()[:22]}"
    return Guest(member, None, visitor if is_new else None)


Caller = Annotated[Guest, Depends(_guest)]
Name = Annotated[str | None, Query(pattern="^[a-z0-9]{1,32}$")]
"""A page's, made up anew each time that it is shown."""

router = APIRouter(tags=["pages"])


def _said(request: Request, guest: Guest, value: object) -> Response:
    response = answer(value)
    if guest.cookie:
        response.headers["Set-Cookie"] = set_cookie_header(
            guest.cookie, name=VISITOR_COOKIE, secure=_is_https(request), max_age=VISITOR_SECONDS
        )
    return response


async def counter(request: Request, guest: Caller, page: Name = None) -> Response:
    """This visitor was seen: how many were within the window (R1). `page` names what beats, for `/goodbye`."""
    tracker: Counter = request.app.state.pages.counter
    online = await tracker.touch(guest.member)
    if (guest.member, page) in request.app.state.goodbyes:
        online -= await tracker.forget(guest.member)
    return _said(request, guest, {"online": online})


async def visit(request: Request, guest: Caller) -> Response:
    """This visitor was seen, in the set of this minute: how many were in the last ones (R5)."""
    visits: Visits = request.app.state.pages.visits
    await visits.touch(guest.member)
    return _said(request, guest, {"online": await visits.count()})


for _path, _run in (("/counter", counter), ("/visit", visit)):
    router.add_api_route(_path, _run, methods=["GET"], response_model=Counted, operation_id=f"get{_path[1:]}")
    router.add_api_route(_path, _run, methods=["POST"], response_model=Counted, operation_id=f"post{_path[1:]}")


@router.get("/online", response_model=Online)
async def online(request: Request, guest: Caller) -> Response:
    """Who was seen in the last minutes, at most 1000 of them; their number alone for who is not signed in."""
    pages: Pages = request.app.state.pages
    if guest.uid is None and not pages.public:
        return answer({"online": await pages.visits.count(), "members": None})
    members = await pages.visits.members()
    return answer({"online": len(members), "members": members[:MOST_LISTED]})


@router.get("/online/friends", response_model=Online)
async def friends(request: Request, guest: Caller) -> Response:
    """Which friends of the signed-in caller were seen in the last minutes."""
    pages: Pages = request.app.state.pages
    if not pages.friends_key:
        raise HTTPException(404, "This service was not told where friends are kept.")
    if guest.uid is None:
        raise HTTPException(401, "Only who is signed in has friends here.")
    found = await pages.visits.online_friends(pages.friends_key.replace("{uid}", guest.uid))
    return answer({"online": len(found), "members": found[:MOST_LISTED]})


@router.post("/goodbye", status_code=204, response_class=Response)
async def goodbye(request: Request, guest: Caller, page: Name = None) -> Response:
    """The page was left: the counter forgets this visitor now, and hears no more of this `page`; sets of minutes run
    out. A session goes on."""
    if not guest.cookie:
        if page is not None:
            request.app.state.goodbyes.add(guest.member, page)
        await request.app.state.pages.counter.forget(guest.member)
    return Response(status_code=204)


@router.get("/presence.js", response_class=Response, include_in_schema=False)
async def script() -> Response:
    """Beats on a timer, pauses in a hidden tab, says goodbye."""
    headers = {"Cache-Control": "public, max-age=3600", "Cross-Origin-Resource-Policy": "cross-origin"}
    return Response(SCRIPT, 200, headers, "text/javascript")


def _check_origin(request: Request, pages: Pages) -> None:
    origin = request.headers.get("origin")
    if origin is None:
        allowed = request.headers.get("sec-fetch-site") != "cross-site"
    else:
        allowed = origin in pages.origins or origin.partition("://")[2] == request.headers.get("host")
    if not allowed:
        raise HTTPException(403, _FOREIGN)


def _is_https(request: Request) -> bool:
    """As the visitor's browser sees it; a proxy may speak plainly to us. Who lies here spoils a cookie of their own."""
    said = request.headers.get("x-forwarded-proto", "").partition(",")[0].strip() or request.url.scheme
    return said == "https" or request.headers.get("origin", "").startswith("https://")


def _neighbourhood(ip: str | None) -> str:
    if ip is None or ":" not in ip:
        return ip or ""
    address = ip_address(ip.partition("%")[0])
    return str(ip_network((address, 64), strict=False))
