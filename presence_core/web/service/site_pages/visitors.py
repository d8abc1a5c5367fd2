"""The caller of a page's address: a signed-in user, or a visitor with a random cookie."""

from __future__ import annotations

import re
import secrets
from collections import OrderedDict
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Annotated, Final, Literal

from fastapi import Depends, Request, Response

from presence_core.client import AsyncPresence
from presence_core.models import Session
from presence_core.operations.sessions.request_tokens import validate_tokens
from presence_core.text.user_agents import is_crawler
from presence_core.web.cookies import read_cookie, set_cookie_header
from presence_core.web.middleware.request_tokens import RequestTokens, read_tokens
from presence_core.web.service.json_format import json_response
from presence_core.web.service.metrics import Meters
from presence_core.web.service.site_pages.access import AddressLimiter, check_origin, limited_network
from presence_core.web.service.site_pages.new_visitors import NewVisitors
from presence_core.web.service.site_pages.options import Pages

VISITOR_COOKIE: Final = "presence_visitor"
VISITOR_SECONDS: Final = 30 * 86_400

MAX_AGENT: Final = 512
"""Characters of a user agent that are read."""

NotCounted = Literal["bot", "no_cookie"]

_COOKIE_VALUE = re.compile(r"[A-Za-z0-9_-]{22}")


@dataclass(frozen=True, slots=True)
class PageCaller:
    """The caller of a page's address."""

    member: str  #: name in the trackers
    uid: str | None  #: of a caller with a live session
    ip: str | None = None
    cookie: str | None = None  #: of a visitor
    is_new: bool = False  #: they had no cookie
    not_counted: NotCounted | None = None  #: why this call does not count a visitor


async def _page_caller(request: Request) -> PageCaller:
    """Check origin and rate, then find the caller."""
    pages: Pages = request.app.state.pages
    limiter: AddressLimiter = request.app.state.limiter
    check_origin(request, pages)
    forwarded = ",".join(request.headers.getlist(pages.proxies.header))
    ip = pages.proxies.client(request.client.host if request.client else None, forwarded)
    limiter.check(ip)
    cookies = "; ".join(request.headers.getlist("cookie"))
    named = read_tokens(request.headers.get("authorization", ""), cookies, pages.cookie)
    session = await _session(request.app.state.presence, named, ip)
    if session is not None and session.on_behalf_by is not None:  # staff do not make the user online
        return replace(_visitor(cookies, ip), uid=session.uid)
    if session is not None:
        return PageCaller(session.uid, session.uid)
    return _visitor(cookies, ip)


async def _session(presence: AsyncPresence, named: RequestTokens, ip: str | None) -> Session | None:
    """The live session that counts for a request."""
    tokens = named.tokens
    if len(tokens) > 1:
        context = presence.internal.context
        several = validate_tokens(context, tokens, True, ip, None, first_end_counts=named.bearer)
        return (await presence.internal.run(several)).session
    return (await presence.validate(tokens[0], ip=ip)).session if tokens else None


def _visitor(cookies: str, ip: str | None) -> PageCaller:
    cookie = read_cookie(cookies, VISITOR_COOKIE) or ""
    is_new = not _COOKIE_VALUE.fullmatch(cookie)
    if is_new:
        cookie = secrets.token_urlsafe(16)
    return PageCaller(_member(cookie), None, ip, cookie, is_new)


def _member(cookie: str) -> str:
    return f"visitor:{sha256(cookie.encode()).hexdigest()[:22]}"


Caller = Annotated[PageCaller, Depends(_page_caller)]


async def _counted_caller(request: Request, caller: Caller) -> PageCaller:
    """Find out whether this call counts a visitor, and note it in the metrics."""
    meters: Meters = request.app.state.meters
    caller = _as_counted(request, caller)
    meters.count_page_call(caller.not_counted or ("visitor" if caller.cookie else "user"))
    return caller


def _as_counted(request: Request, caller: PageCaller) -> PageCaller:
    if caller.cookie is None:
        return caller
    agent = request.headers.get("user-agent", "")[:MAX_AGENT]
    if is_crawler(agent):
        return replace(caller, is_new=False, not_counted="bot")
    new_visitors: NewVisitors = request.app.state.new_visitors
    source = request.url.path, limited_network(caller.ip), agent
    if not caller.is_new:
        new_visitors.came_back(source, caller.cookie)
        return caller
    page = request.query_params.get("page")
    cookie = new_visitors.admit(source, page and page[:32], caller.cookie)
    if cookie is None:
        return replace(caller, not_counted="no_cookie")
    return replace(caller, member=_member(cookie), cookie=cookie)


CountedCaller = Annotated[PageCaller, Depends(_counted_caller)]


def respond(request: Request, caller: PageCaller, online: int) -> Response:
    """How many are online, with the cookie of a new visitor."""
    response = json_response({"online": online} | ({"not_counted": caller.not_counted} if caller.not_counted else {}))
    if caller.is_new and caller.cookie:
        response.headers["Set-Cookie"] = set_cookie_header(
            caller.cookie, name=VISITOR_COOKIE, secure=_is_https(request), max_age=VISITOR_SECONDS
        )
    return response


def _is_https(request: Request) -> bool:
    """Whether the visitor's browser uses HTTPS; a proxy may not. A caller who lies here harms only their own cookie."""
    scheme = request.headers.get("x-forwarded-proto", "").partition(",")[0].strip() or request.url.scheme
    return scheme == "https" or request.headers.get("origin", "").startswith("https://")


class LeftPages:
    """Pages that were left recently, the latest 10,000: a late beat of such a page must not count its visitor again.

    Each process knows only the goodbyes that it received.
    """

    CAPACITY = 10_000

    def __init__(self) -> None:
        self._pages: OrderedDict[tuple[str, str], None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._pages)

    def add(self, member: str, page: str) -> None:
        """This visitor has left this page. If the page is shown again it has another name."""
        self._pages[member, page] = None
        if len(self._pages) > self.CAPACITY:
            self._pages.popitem(last=False)

    def __contains__(self, left: tuple[str, str | None]) -> bool:
        return left in self._pages
