"""Signing in and out: what the two forms do."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from hmac import compare_digest
from math import ceil
from typing import Final, TypeVar
from urllib.parse import parse_qs

import anyio
from anyio import to_thread
from starlette.requests import HTTPConnection, Request
from starlette.responses import RedirectResponse, Response

from presence_core import PresenceError
from presence_core.loopback import host_of, is_loopback
from presence_core.passwords import PasswordFile
from presence_dashboard import texts
from presence_dashboard.gate import pages
from presence_dashboard.gate.desk import COOKIE, Desk
from presence_dashboard.gate.limits import Limits
from presence_dashboard.roles import SignedOut

T = TypeVar("T")

CSRF: Final = "presence_csrf"
_LARGEST: Final = 16_384
_AT_ONCE: Final = 2  # each password that is checked takes 64 MB and a core
_WAITING: Final = 16

_log = logging.getLogger(__name__)


def safe_next(path: str) -> str:
    """Where to go on after signing in: a path of this site, whatever an address said."""
    is_ours = path.startswith("/") and not path.startswith("//") and "\\" not in path and len(path) <= 2000
    return path if is_ours and path.isprintable() and path.isascii() else "/"


def is_secure(request: HTTPConnection) -> bool:
    """Away from this machine, cookies go over https only."""
    return not is_loopback(host_of(f"//{request.headers.get('host', '')}"))


def set_cookie(response: Response, name: str, value: str, *, secure: bool) -> None:
    """Until the browser is closed; Lax, for links from a ticket system open the page of a person."""
    response.set_cookie(name, value, path="/", httponly=True, samesite="lax", secure=secure)


def client_of(desk: Desk, request: HTTPConnection) -> str | None:
    """Where a request comes from."""
    peer = request.client.host if request.client else None
    return desk.config.client(peer, ",".join(request.headers.getlist("x-forwarded-for")))


class Forms:
    """The endpoints /sign-in and /sign-out."""

    def __init__(self, desk: Desk, passwords: PasswordFile | None, limits: Limits | None = None) -> None:
        self._desk = desk
        self._passwords = passwords
        self._limits = limits or Limits()
        self._slots = anyio.Semaphore(_AT_ONCE)
        self._waiting = 0

    # -- in ---------------------------------------------------------------------------------------------------------

    async def sign_in(self, request: Request) -> Response:
        """GET shows the form, POST checks what was typed."""
        if self._passwords is None:
            return RedirectResponse("/", 303)
        try:
            if request.method == "POST":
                return await self._try(request, self._passwords)
            then = safe_next(request.query_params.get("next", "/"))
            try:
                token = request.cookies.get(COOKIE)
                await to_thread.run_sync(lambda: self._desk.by_token(token))
            except SignedOut:
                return self._form(request, then)
            return RedirectResponse(then, 303)
        except PresenceError as error:
            _log.warning("Nobody can sign in: %s", error)
            return pages.redis_away()

    async def _try(self, request: Request, passwords: PasswordFile) -> Response:
        origin = request.headers.get("origin", "")
        if not origin:
            return pages.refused(texts.FOREIGN_ORIGIN)
        if is_secure(request) and not origin.startswith("https:"):
            return pages.refused(texts.SIGN_IN_INSECURE)
        fields = await _fields(request)
        name, password = fields.get("name", "").strip().lower(), fields.get("password", "")
        then = safe_next(fields.get("next", "/"))
        if not _same(fields.get("csrf"), request.cookies.get(CSRF)):
            return self._form(request, then, name, texts.SIGN_IN_STALE, 403)
        ip = client_of(self._desk, request)
        # Of an unknown name nothing is written down: people type their password there.
        by = name if name in passwords else "(unknown name)"
        if wait := self._limits.begin(ip, name):
            await self._denied(by, f"too many attempts, from {ip}")
            answer = self._form(request, then, name, texts.sign_in_wait(ceil(wait)), 429)
            answer.headers["Retry-After"] = str(ceil(wait))
            return answer
        is_right = await self._verified(passwords, name, password)
        if is_right is None:
            return self._form(request, then, name, texts.SIGN_IN_BUSY, 503)
        if not is_right:
            await self._denied(by, f"wrong password, from {ip}")
            return self._form(request, then, name, texts.SIGN_IN_WRONG, 403)
        if await to_thread.run_sync(lambda: self._desk.role(name, anew=True)) is None:
            await self._denied(name, "has no role")
            return self._form(request, then, name, texts.no_role(name), 403)
        self._limits.succeeded(ip, name)
        return await self._admit(request, name, ip, then)

    async def _verified(self, passwords: PasswordFile, name: str, password: str) -> bool | None:
        """None: too many others wait to be checked."""
        if self._waiting >= _WAITING:
            return None
        self._waiting += 1
        try:
            async with self._slots:
                return await to_thread.run_sync(lambda: passwords.verify(name, password))
        finally:
            self._waiting -= 1

    async def _admit(self, request: Request, name: str, ip: str | None, then: str) -> Response:
        """A new session, whatever cookie was there before: nobody can have set the token that holds from here on."""
        old, agent = request.cookies.get(COOKIE), request.headers.get("user-agent")

        def change() -> str:
            if old:
                self._desk.leave(old)
            return self._desk.admit(name, ip, agent)

        response = RedirectResponse(then, 303)
        set_cookie(response, COOKIE, await to_thread.run_sync(change), secure=is_secure(request))
        response.delete_cookie(CSRF, path="/")
        return response

    async def _denied(self, by: str, why: str) -> None:
        await to_thread.run_sync(lambda: self._desk.deny(by or "(unknown name)", "sign-in", why))

    # -- out --------------------------------------------------------------------------------------------------------

    async def sign_out(self, request: Request) -> Response:
        """GET asks, POST does it: no picture on another page signs anybody out."""
        if request.method != "POST":
            return self._with_csrf(request, pages.sign_out_form)
        token = request.cookies.get(COOKIE)
        if not _same((await _fields(request)).get("csrf"), request.cookies.get(CSRF)):
            return self._with_csrf(request, pages.sign_out_form)
        try:
            if token:
                await to_thread.run_sync(lambda: self._desk.leave(token))
        except PresenceError as error:
            _log.warning("Nobody can sign out: %s", error)
            return pages.redis_away()
        response = pages.signed_out()
        for name in (COOKIE, CSRF):
            response.delete_cookie(name, path="/")
        return response

    # -- forms ------------------------------------------------------------------------------------------------------

    def _form(self, request: Request, then: str, name: str = "", wrong: str = "", status: int = 200) -> Response:
        return self._with_csrf(request, lambda csrf: pages.sign_in_form(csrf, then, name[:128], wrong, status))

    def _with_csrf(self, request: Request, make: Callable[[str], Response]) -> Response:
        """Each form carries what the cookie holds, which no other site can read or guess."""
        csrf = request.cookies.get(CSRF, "")
        if not (len(csrf) == 43 and csrf.isascii() and csrf.isprintable()):
            csrf = secrets.token_urlsafe(32)
        response = make(csrf)
        set_cookie(response, CSRF, csrf, secure=is_secure(request))
        return response


def _same(given: str | None, known: str | None) -> bool:
    return bool(given and known) and compare_digest((given or "").encode(), (known or "").encode())


async def _fields(request: Request) -> dict[str, str]:
    """What a form sent. What is too large or no form holds nothing."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _LARGEST:
            return {}
    try:
        found = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=8)
    except (ValueError, UnicodeDecodeError):
        return {}
    return {name: values[0] for name, values in found.items()}
