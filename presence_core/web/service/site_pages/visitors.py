"""The caller of a page's address: a signed-in user, or a visitor with a random cookie."""

from __future__ import annotations

import re
import secrets
from collections import OrderedDict
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Annotated, Final

from fastapi import Depends, Request, Response

from presence_core.client import AsyncPresence
from presence_core.web.cookies import read_cookie, set_cookie_header
from presence_core.web.service.json_format import json_response
from presence_core.web.service.site_pages.access import AddressLimiter, check_origin
from presence_core.web.service.site_pages.options import Pages

VISITOR_COOKIE: Final = "presence_visitor"
VISITOR_SECONDS: Final = 30 * 86_400

_COOKIE_VALUE = re.compile(r"[A-Za-z0-9_-]{22}")


@dataclass(frozen=True, slots=True)
class PageCaller:
    """The caller of a page's address."""

    member: str  #: name in the trackers
    uid: str | None  #: of a caller with a live session
    new_cookie: str | None  #: for a visitor who had none


async def _page_caller(request: Request) -> PageCaller:
    """Check origin and rate, then find the caller."""
    pages: Pages = request.app.state.pages
    limiter: AddressLimiter = request.app.state.limiter
    check_origin(request, pages)
    forwarded = ",".join(request.headers.getlist("x-forwarded-for"))
    ip = pages.proxies.client(request.client.host if request.client else None, forwarded)
    limiter.check(ip)
    cookies = "; ".join(request.headers.getlist("cookie"))
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    token = token.strip() if scheme.lower() == "bearer" else read_cookie(cookies, pages.cookie) or ""
    if token:
        presence: AsyncPresence = request.app.state.presence
        validation = await presence.validate(token, ip=ip)
        session = validation.session
        if session is not None and session.on_behalf_by is not None:  # staff do not make the user online
            return replace(_visitor(cookies), uid=session.uid)
        if session is not None:
            return PageCaller(session.uid, session.uid, None)
    return _visitor(cookies)


def _visitor(cookies: str) -> PageCaller:
    cookie = read_cookie(cookies, VISITOR_COOKIE) or ""
    is_new = not _COOKIE_VALUE.fullmatch(cookie)
    if is_new:
        cookie = secrets.token_urlsafe(16)
    member = f"visitor:{sha256(cookie.encode()).hexdigest()[:22]}"
    return PageCaller(member, None, cookie if is_new else None)


Caller = Annotated[PageCaller, Depends(_page_caller)]


def respond(request: Request, caller: PageCaller, value: object) -> Response:
    """A JSON response, with the cookie of a new visitor."""
    response = json_response(value)
    if caller.new_cookie:
        response.headers["Set-Cookie"] = set_cookie_header(
            caller.new_cookie, name=VISITOR_COOKIE, secure=_is_https(request), max_age=VISITOR_SECONDS
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
