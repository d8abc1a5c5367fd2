"""OIDC: a member signs in again at the provider, and returns to the page from which they left.

Streamlit runs the sign-in and has no options for it. So this middleware completes its two redirects: the request to the
provider asks how old the authentication may be, and the return goes to the page. The claim ``auth_time`` decides later,
in ``access``: what a browser does with these redirects makes no sign-in fresh.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable
from hashlib import sha256
from hmac import compare_digest
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit.user_info import generate_login_redirect_url

from presence_dashboard.gate.sign_in_forms import is_secure, safe_next
from presence_dashboard.gate_settings import Config

AGAIN: Final = "presence_again"
"""Cookie of a member who left to sign in again: the digest of their name, and the path to return to."""

_KEEP: Final = 600  # seconds for the way to the provider and back
_LONGEST: Final = 3_800  # of the path as the cookie has it: browsers drop a cookie of more than 4,096 bytes
_MARK: Final = "again"  # in the address of Streamlit's sign-in


def name_digest(name: str) -> str:
    """A name as it is in an address and a cookie."""
    return urlsafe_b64encode(sha256(name.encode()).digest()).decode()[:22]


def is_by_other(cookie: str | None, name: str) -> bool:
    """Whether another member than ``name`` left to sign in again."""
    return cookie is not None and not compare_digest(cookie.partition(".")[0].encode(), name_digest(name).encode())


async def sign_in_again(request: Request) -> Response:
    """Start the sign-in at the provider for the member of the query, and note the page to return to.

    Only for links of the dashboard: with one on another site, a stranger could name another member, and the signed-in
    one would be refused until the cookie ends.
    """
    then = quote(safe_next(request.query_params.get("next", "/")), safe="")
    digest = request.query_params.get("member", "")
    is_foreign = request.headers.get("sec-fetch-site", "none") not in ("same-origin", "none")
    if is_foreign or len(digest) != len(name_digest("")):
        return RedirectResponse("/", 303)
    response = RedirectResponse(f"{generate_login_redirect_url('default')}&{_MARK}=1", 303)
    value = f"{quote(digest)}.{then if len(then) <= _LONGEST else '/'}"
    response.set_cookie(AGAIN, value, max_age=_KEEP, path="/", httponly=True, samesite="lax", secure=is_secure(request))
    return response


class OidcRedirects:
    """ASGI middleware around Streamlit's sign-in."""

    def __init__(self, app: ASGIApp, config: Config) -> None:
        self.app = app
        self._config = config

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == "/auth/login":
            send = _with_headers(send, self._to_provider(Request(scope)))
        elif scope["type"] == "http" and scope["path"] == "/oauth2callback":
            send = _with_headers(send, _back(Request(scope)))
        await self.app(scope, receive, send)

    def _to_provider(self, request: Request) -> Callable[[MutableHeaders], None]:
        is_again = _MARK in request.query_params

        def complete(headers: MutableHeaders) -> None:
            if (max_age := self._config.max_age) is not None and urlsplit(headers["location"]).netloc:
                again = {"max_age": str(max_age), "prompt": "login"}
                first = {"max_age": str(self._config.absolute)}  # so that the provider sends auth_time
                headers["location"] = _with_query(headers["location"], again if is_again else first)
            if not is_again and AGAIN in request.cookies:  # a sign-in of anyone
                gone = Response()
                gone.delete_cookie(AGAIN, path="/")
                headers.append("set-cookie", gone.headers["set-cookie"])

        return complete


def _back(request: Request) -> Callable[[MutableHeaders], None]:
    """Streamlit returns to ``/`` in any case."""

    def complete(headers: MutableHeaders) -> None:
        cookie = request.cookies.get(AGAIN)
        if cookie is not None and headers["location"] == "/":
            headers["location"] = safe_next(unquote(cookie.partition(".")[2]))

    return complete


def _with_headers(send: Send, complete: Callable[[MutableHeaders], None]) -> Send:
    """Send a redirect with completed headers, and everything else as it is."""

    async def send_completed(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            if "location" in headers:
                complete(headers)
        await send(message)

    return send_completed


def _with_query(address: str, parameters: dict[str, str]) -> str:
    """The address with these parameters in place of its own of the same names."""
    parts = urlsplit(address)
    kept = [pair for pair in parse_qsl(parts.query, keep_blank_values=True) if pair[0] not in parameters]
    return parts._replace(query=urlencode([*kept, *parameters.items()])).geturl()
