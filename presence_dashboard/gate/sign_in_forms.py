"""The endpoints /sign-in, /sign-in-again and /sign-out."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from datetime import UTC, datetime
from hmac import compare_digest
from math import ceil
from typing import Final
from urllib.parse import parse_qs, quote

from anyio import to_thread
from starlette.requests import HTTPConnection, Request
from starlette.responses import RedirectResponse, Response

from presence_core import InvalidArgument, PresenceError
from presence_core.files.password_file import VARIABLE, PasswordFile, StoredPassword
from presence_core.loopback import host_of, is_loopback
from presence_dashboard import texts
from presence_dashboard.gate import first_password, html_pages
from presence_dashboard.gate.limits.password_queue import PasswordQueue, TooBusy
from presence_dashboard.gate.limits.sign_in_limits import SignInLimits, wide_network_of
from presence_dashboard.gate.staff_sessions import COOKIE, StaffSessions
from presence_dashboard.roles import SignedOut, denied_from

CSRF: Final = "presence_csrf"
_LARGEST: Final = 65_536

_log = logging.getLogger(__name__)


def safe_next(path: str) -> str:
    """The path to open after the sign-in: only a path of this site, otherwise ``/``."""
    is_ours = path.startswith("/") and not path.startswith("//") and "\\" not in path and len(path) <= 2000
    return path if is_ours and path.isprintable() and path.isascii() else "/"


def is_secure(request: HTTPConnection) -> bool:
    """Whether cookies must go over https: everywhere but on this machine."""
    return not is_loopback(host_of(f"//{request.headers.get('host', '')}"))


def set_cookie(response: Response, name: str, value: str, *, secure: bool) -> None:
    """Set a cookie until the browser closes. SameSite is Lax, because tickets link to the page of a person."""
    response.set_cookie(name, value, path="/", httponly=True, samesite="lax", secure=secure)


def client_of(staff: StaffSessions, request: HTTPConnection) -> str | None:
    peer = request.client.host if request.client else None
    return staff.config.client(peer, ",".join(request.headers.getlist("x-forwarded-for")))


class SignInForms:
    """Handlers of the sign-in and sign-out forms."""

    def __init__(self, staff: StaffSessions, limits: SignInLimits | None = None) -> None:
        self._staff = staff
        self._passwords = staff.passwords
        self._limits = limits or SignInLimits()
        self._queue = PasswordQueue()

    # -- Sign in ------------------------------------------------------------------------------------------------------

    async def sign_in(self, request: Request) -> Response:
        """GET shows the form, POST checks name and password."""
        if self._passwords is None:
            return RedirectResponse("/", 303)
        try:
            if request.method == "POST":
                return await self._try(request, self._passwords)
            then = safe_next(request.query_params.get("next", "/"))
            try:
                token = request.cookies.get(COOKIE)
                await to_thread.run_sync(lambda: self._staff.by_token(token))
            except SignedOut:
                return self._form(request, then)
            return RedirectResponse(then, 303)
        except PresenceError as error:
            return _not_now(error)

    async def _try(self, request: Request, passwords: PasswordFile) -> Response:
        if refused := _refused_origin(request):
            return refused
        fields = await _fields(request)
        name, then = fields.get("name", "").strip().lower(), safe_next(fields.get("next", "/"))

        def form(wrong: str, status: int) -> Response:
            return self._form(request, then, name, wrong, status)

        if not _has_token(fields, request):
            return form(texts.SIGN_IN_STALE, 403)
        if "proof" in fields:
            return await self._choose(request, passwords, fields, then)
        stored = await self._checked(request, passwords, name, fields.get("password", ""), form)
        if isinstance(stored, Response):
            return stored
        if not await self._has_role(name):
            return form(texts.no_role(name), 403)
        ip = client_of(self._staff, request)
        if stored.has_expired:
            await self._log_denial(name, denied_from("one-time password has expired", ip))
            return form(texts.FIRST_PASSWORD_EXPIRED, 403)
        self._limits.succeeded(ip, name)
        if stored.is_one_time:
            return self._choice(request, stored, name, then)
        return await self._start_session(request, passwords, stored, name, then)

    async def _checked(
        self,
        request: Request,
        passwords: PasswordFile,
        name: str,
        password: str,
        form: Callable[[str, int], Response],
        wrong: str | None = None,
    ) -> StoredPassword | Response:
        """The stored password of ``name``, if it is this one; or the form with the reason why not. Guesses are limited
        and audited."""
        ip = client_of(self._staff, request)
        # An unknown name is not audited: people type their password there.
        by = name if name in passwords else "(unknown name)"
        if wait := self._limits.begin(ip, name):
            await self._log_denial(by, denied_from("too many attempts", ip))
            answer = form(texts.sign_in_wait(ceil(wait)), 429)
            answer.headers["Retry-After"] = str(ceil(wait))
            return answer
        try:
            attempts, network = self._limits.attempts(ip), wide_network_of(ip)
            stored = await self._queue.run(lambda: passwords.verify(name, password), attempts, network)
        except TooBusy:
            return form(texts.SIGN_IN_BUSY, 503)
        if stored is None:
            await self._log_denial(by, denied_from("wrong password", ip))
            return form(wrong or texts.SIGN_IN_WRONG, 403)
        return stored

    async def _has_role(self, name: str) -> bool:
        """Whether the staff record gives them a role. If not, the attempt is audited."""
        if await to_thread.run_sync(lambda: self._staff.role(name, fresh=True)) is not None:
            return True
        await self._log_denial(name, "has no role")
        return False

    async def _start_session(
        self, request: Request, passwords: PasswordFile, stored: StoredPassword, name: str, then: str
    ) -> Response:
        """Start a new session and drop the old cookie, so that no one else can know the token (session fixation).

        stored: the password of this sign-in. If it was reset in the meantime, no session is left.
        """
        old, agent, ip = request.cookies.get(COOKIE), request.headers.get("user-agent"), client_of(self._staff, request)

        def change() -> str | None:
            if old:
                self._staff.end_sign_in(old)
            token = self._staff.sign_in_as(name, ip, agent, password=stored)
            if passwords.find(name) == stored:
                return token
            self._staff.end_sign_in(token)
            return None

        token = await to_thread.run_sync(change)
        if token is None:
            return self._form(request, then, name, texts.SIGN_IN_WRONG, 403)
        return self._with_token(request, token, then)

    # -- A signed-in member enters their password again ---------------------------------------------------------------

    async def sign_in_again(self, request: Request) -> Response:
        """GET asks a signed-in member for their password, POST checks it and replaces the token of the session."""
        if self._passwords is None:
            return RedirectResponse("/", 303)
        token, began = request.cookies.get(COOKIE), datetime.now(UTC)
        then = safe_next(request.query_params.get("next", "/"))
        try:
            if refused := request.method == "POST" and _refused_origin(request):
                return refused
            fields = await _fields(request) if request.method == "POST" else {}
            then = safe_next(fields.get("next", then))
            member = await to_thread.run_sync(lambda: self._staff.by_token(token, fresh=True))

            def form(wrong: str = "", status: int = 200) -> Response:
                make = html_pages.password_again_form
                return self._with_csrf(request, lambda csrf: make(csrf, then, member.name, wrong, status))

            if request.method != "POST":
                return form()
            if not _has_token(fields, request):
                return form(texts.SIGN_IN_STALE, 403)
            # The name is that of the session: another member's password must not make this session fresh.
            password, wrong = fields.get("password", ""), texts.PASSWORD_AGAIN_WRONG
            stored = await self._checked(request, self._passwords, member.name, password, form, wrong)
            if isinstance(stored, Response):
                return stored
            new = await to_thread.run_sync(lambda: self._staff.authenticated_again(token or "", began))
        except SignedOut:
            return RedirectResponse(f"/sign-in?next={quote(then, safe='/')}", 303)
        except PresenceError as error:
            return _not_now(error)
        self._limits.succeeded(client_of(self._staff, request), member.name)
        return self._with_token(request, new, then)

    def _with_token(self, request: Request, token: str, then: str) -> Response:
        """The redirect after a sign-in, with the cookie of the session."""
        response = RedirectResponse(then, 303)
        set_cookie(response, COOKIE, token, secure=is_secure(request))
        response.delete_cookie(CSRF, path="/")
        return response

    # -- The first sign-in, with a one-time password ------------------------------------------------------------------

    def _choice(self, request: Request, stored: StoredPassword, name: str, then: str, wrong: str = "") -> Response:
        """The form that asks for a password of the member's own."""

        def make(csrf: str) -> Response:
            proof = first_password.proof(stored, name, csrf)
            return html_pages.first_password_form(csrf, then, name, proof, wrong, 403 if wrong else 200)

        return self._with_csrf(request, make)

    async def _choose(self, request: Request, passwords: PasswordFile, fields: dict[str, str], then: str) -> Response:
        """Store the password that the member chose, and sign them in."""
        name, new = fields.get("name", ""), fields.get("password", "")
        stored = passwords.find(name)
        if stored is None or not first_password.is_proof(fields["proof"], stored, name, request.cookies.get(CSRF, "")):
            return self._form(request, then, name, texts.FIRST_PASSWORD_STALE, 403)
        if not await self._has_role(name):
            return self._form(request, then, name, texts.no_role(name), 403)
        if wrong := first_password.problem(new, fields.get("repeat", "")):
            return self._choice(request, stored, name, then, wrong)

        def store() -> StoredPassword | None:
            is_same = passwords.verify(name, new) is not None
            return None if is_same else passwords.set(name, new, instead_of=stored)

        try:
            chosen = await self._queue.run(store, 0, wide_network_of(client_of(self._staff, request)))
        except TooBusy:
            return self._choice(request, stored, name, then, texts.SIGN_IN_BUSY)
        except InvalidArgument as error:
            if error.field == "password":  # it was reset in the meantime
                return self._form(request, then, name, texts.FIRST_PASSWORD_STALE, 403)
            _log.warning("A password cannot be stored: %s", error)
            return self._choice(request, stored, name, then, texts.FIRST_PASSWORD_NOT_STORED)
        if chosen is None:
            return self._choice(request, stored, name, then, texts.FIRST_PASSWORD_SAME)
        await to_thread.run_sync(lambda: self._staff.log_chosen_password(name))
        return await self._start_session(request, passwords, chosen, name, then)

    async def _log_denial(self, by: str, reason: str) -> None:
        await to_thread.run_sync(lambda: self._staff.log_denial(by or "(unknown name)", "sign-in", reason))

    # -- Sign out -----------------------------------------------------------------------------------------------------

    async def sign_out(self, request: Request) -> Response:
        """GET asks, POST signs out, so that an image on another site cannot sign staff out."""
        if request.method != "POST":
            return self._with_csrf(request, html_pages.sign_out_form)
        token = request.cookies.get(COOKIE)
        if not _has_token(await _fields(request), request):
            return self._with_csrf(request, html_pages.sign_out_form)
        try:
            if token:
                await to_thread.run_sync(lambda: self._staff.end_sign_in(token))
        except PresenceError as error:
            _log.warning("Sign-out failed: %s", error)
            return html_pages.redis_away()
        response = html_pages.signed_out()
        for name in (COOKIE, CSRF):
            response.delete_cookie(name, path="/")
        return response

    # -- Forms --------------------------------------------------------------------------------------------------------

    def _form(self, request: Request, then: str, name: str = "", wrong: str = "", status: int = 200) -> Response:
        return self._with_csrf(request, lambda csrf: html_pages.sign_in_form(csrf, then, name[:128], wrong, status))

    def _with_csrf(self, request: Request, make: Callable[[str], Response]) -> Response:
        """A form with the CSRF value of the cookie, which no other site can read or guess."""
        csrf = request.cookies.get(CSRF, "")
        if not (len(csrf) == 43 and csrf.isascii() and csrf.isprintable()):
            csrf = secrets.token_urlsafe(32)
        response = make(csrf)
        set_cookie(response, CSRF, csrf, secure=is_secure(request))
        return response


def _refused_origin(request: Request) -> Response | None:
    """Why no password of this request is read; None: it may be."""
    origin = request.headers.get("origin", "")
    if not origin:
        return html_pages.refused(texts.FOREIGN_ORIGIN)
    if is_secure(request) and not origin.startswith("https:"):
        return html_pages.refused(texts.SIGN_IN_INSECURE)
    return None


def _not_now(error: PresenceError) -> Response:
    """The page where passwords or sign-ins cannot be checked."""
    _log.warning("Sign-in failed: %s", error)
    if isinstance(error, InvalidArgument) and error.field == VARIABLE:
        return html_pages.refused(texts.SIGN_IN_FILE, 503)
    return html_pages.redis_away()


def _has_token(fields: dict[str, str], request: Request) -> bool:
    """Whether the form has the CSRF value of the cookie."""
    given, known = fields.get("csrf"), request.cookies.get(CSRF)
    return bool(given and known) and compare_digest((given or "").encode(), (known or "").encode())


async def _fields(request: Request) -> dict[str, str]:
    """The fields of a form. Empty if the body is too large or not a form."""
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
