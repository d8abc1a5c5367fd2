"""PresenceMiddleware for ASGI applications: Starlette, FastAPI, Django and others. It imports none of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from inspect import isawaitable
from typing import Any, Final, TypeVar

from presence_core.client import AsyncPresence, Presence
from presence_core.drive_generators import ClientCalls, drive, drive_async
from presence_core.errors import InvalidArgument, LoginRefused, PresenceError
from presence_core.models import Ended, Login
from presence_core.schema.failures import SiteFailure
from presence_core.web.middleware.open_connections import (
    REFUSED,
    OpenConnection,
    begins_event_stream,
    free_frames,
    is_of_the_end,
)
from presence_core.web.middleware.refusals import HOOKED, login_refusal, problem
from presence_core.web.middleware.request_check import RequestChecker
from presence_core.web.middleware.request_data import RequestData
from presence_core.web.middleware.sign_in_out import (
    NO_MIDDLEWARE,
    login_failed_calls,
    sign_in_calls,
    sign_out_calls,
)
from presence_core.web.middleware.websockets import TRY_LATER, run_websocket
from presence_core.web.rules import Rules, Verdict, Visitor
from presence_core.web.wsgi import check_hooks, takes_only

T = TypeVar("T")

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Any, Any, Any], Awaitable[None]]
UserOf = Callable[[Scope], Visitor | str | None]
OnEnded = Callable[[Scope, Ended | None], Any]

WEBSOCKET_REFUSED: Final = REFUSED
"""Close code of a websocket that is refused, or whose session has ended. The close reason is one word, such as
"kicked"."""

WEBSOCKET_TRY_LATER: Final = TRY_LATER
"""Close code of a websocket while Redis is away."""


class PresenceMiddleware:
    """Finds the session of each request and websocket, and refuses requests without one, as ``rules`` say.

    The application reads ``scope["presence.session"]`` or, with Starlette and FastAPI, ``request.state.session``: a
    Session or None. ``scope["presence.verdict"]`` has the details; its ``ip`` is the visitor's address or None. A
    LoginRefused that the application raises (a block, a limit) becomes a 403 problem.

    ``user_of(scope)`` returns the user that the site itself has signed in: a uid, a Visitor or None.
    ``on_ended(scope, ended)`` returns the ASGI application (such as a Starlette response, or an awaitable of one) that
    answers in place of the default 401 problem. ``ended`` is None if nothing is known of the session, or if it lives
    and its visitor must sign in again: ``scope["presence.verdict"].state`` says which.
    ``tally``, such as a Counter, gets the number of requests by outcome (``Verdict.state``). Use one for each
    middleware.

    A refused websocket is accepted and closed at once with 4401, because browsers hide the reason if it was never
    accepted. An open one is closed with 4401 when its session ends or must sign in again, and an event stream (a
    response of type text/event-stream) ends then, except for the paths of ``Rules.keep_open``. It takes about 0.1 s;
    while Redis is away they stay open. The application receives a disconnect, and what it sends later raises OSError.
    A message of a websocket counts as seen, as a request does, except for ``Rules.passive``.

    ``presence`` is an AsyncPresence, or a Presence, which then uses a thread for each call. Cost: one round trip to
    Redis for a request that names a session, none for others; for all open connections together that of ``watch()``.
    """

    def __init__(
        self,
        app: App,
        presence: AsyncPresence | Presence,
        *,
        rules: Rules | None = None,
        user_of: UserOf | None = None,
        on_ended: OnEnded | None = None,
        tally: MutableMapping[str, int] | None = None,
    ) -> None:
        check_hooks(app=app, user_of=user_of, on_ended=on_ended)
        if takes_only(app, 2):
            raise InvalidArgument("app", "must be an ASGI application, not a WSGI one: for that, import"
                                  " PresenceMiddleware from presence_core.web.wsgi", "wrong_type")  # fmt: skip
        self.checker = RequestChecker(presence, rules, tally)
        self._presence = presence
        self._app = app
        self._user_of = user_of
        self._on_ended = on_ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, self._close_at_shutdown(receive), send)
            return
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        verdict = await self._check(scope)
        scope["presence.session"] = verdict.session
        scope["presence.verdict"] = verdict
        scope["presence.middleware"] = self
        scope.setdefault("state", {})["session"] = verdict.session
        if verdict.token is not None or verdict.clears_cookies:
            send = _with_cookies(send, self.checker.set_cookies(verdict, scope["path"], _host_of(scope)))
        if scope["type"] == "websocket":
            await run_websocket(self._app, self._presence, self.checker, verdict, scope, receive, send)
        elif verdict.passes:
            await self._run_app(verdict, scope, receive, send)
        else:
            await self._refuse(verdict, scope, receive, send)

    async def _check(self, scope: Scope) -> Verdict:
        user_of, presence = self._user_of, self._presence
        calls = self.checker.check(self.checker.read_scope(scope), None if user_of is None else lambda: user_of(scope))
        if isinstance(presence, AsyncPresence):  # as ``run``, without the time of another coroutine
            return await drive_async(calls, lambda call: call(presence))
        return await asyncio.to_thread(drive, calls, lambda call: call(presence))

    async def run(self, calls: ClientCalls[T]) -> T:
        """Carry out calls of the client."""
        presence = self._presence
        if isinstance(presence, AsyncPresence):
            return await drive_async(calls, lambda call: call(presence))
        return await asyncio.to_thread(drive, calls, lambda call: call(presence))

    async def _run_app(self, verdict: Verdict, scope: Scope, receive: Receive, send: Send) -> None:
        started, stream = False, None

        def note_start(message: Message) -> Awaitable[None]:
            nonlocal started, stream
            if verdict.session is not None and begins_event_stream(message):
                stream = OpenConnection(receive, send, is_websocket=False)
                if self.checker.closes(verdict, scope["path"]):
                    stream.watch(self._presence, verdict.session)
            started = True
            return send(message) if stream is None else stream.send(message)

        try:
            await self._app(scope, receive, note_start)
        except LoginRefused as refused:
            if started:
                raise
            await _send_problem(login_refusal(refused), scope, send)
        except Exception as error:
            if stream is None or not is_of_the_end(error):
                raise
            free_frames(error)
        finally:
            if stream is not None:
                await stream.aclose()

    async def _refuse(self, verdict: Verdict, scope: Scope, receive: Receive, send: Send) -> None:
        if self._on_ended is not None and verdict.state in HOOKED:
            response = self._on_ended(scope, verdict.ended)
            if isawaitable(response):
                response = await response
            await response(scope, receive, send)
            return
        await _send_problem(verdict, scope, send)

    def _close_at_shutdown(self, receive: Receive) -> Receive:
        """Send the waiting heartbeats before the application's own shutdown closes its Presence."""

        async def received() -> Message:
            message = await receive()
            if message["type"] == "lifespan.shutdown":
                await self.aclose()
            return message

        return received

    async def aclose(self) -> None:
        """Send the waiting heartbeats. If Redis is away they are dropped, without an error."""
        try:
            if isinstance(self._presence, AsyncPresence):
                await self.checker.buffer.aclose()
            else:
                await asyncio.to_thread(self.checker.buffer.close)
        except PresenceError:
            pass


async def sign_in(
    response: Any, request: Any, uid: str, *, max_age: int | None = None, device_cookie: bool = True, **login: Any
) -> Login:
    """Begin a session for ``uid`` in this browser, and set its cookie on the response. Call it once you have checked
    the password. Address and user agent are those of the request.

    request: of Starlette or FastAPI, behind the middleware. response: with ``headers.append``. login: other arguments
    of ``login``. max_age: of the cookie, seconds; None: until the browser closes. device_cookie: keep a random id on
    the device (docs/use/odd_logins.md), unless ``device_id`` is given.

    The sessions that the request names end first, of any user, and those of this user on the same ``device_id``. A
    session ``on_behalf_by`` staff neither ends others nor is ended. Raises LoginRefused. Cost: two to five round trips.
    """
    middleware, data, verdict = _middleware(request)
    calls = sign_in_calls(middleware.checker, data, verdict, uid, login, max_age=max_age, device_cookie=device_cookie)
    signed_in = await middleware.run(calls)
    for cookie in signed_in.cookies:
        response.headers.append("Set-Cookie", cookie)
    return signed_in.login


async def sign_in_failed(
    request: Any, who: str, *, why: SiteFailure, is_uid: bool = False, app: str | None = None
) -> None:
    """Record a sign-in that your site refused, with address and user agent of the request: ``Presence.login_failed``.

    who: the uid, or the text as it was typed; never a password. is_uid: it is the uid of an account of yours. Raises
    nothing while Redis is away; the log says so.
    Cost: two round trips.
    """
    middleware, data, verdict = _middleware(request)
    await middleware.run(login_failed_calls(data, verdict, who, why, is_uid, app))


async def sign_out(response: Any, request: Any) -> int:
    """End every live session that the request names, and delete the cookie; the arguments are those of ``sign_in``.

    Returns the number of sessions that have ended: 0 if there was none, which is no error. Cost: two round trips.
    """
    middleware, data, verdict = _middleware(request)
    signed_out = await middleware.run(sign_out_calls(middleware.checker, data, verdict))
    for cookie in signed_out.cookies:
        response.headers.append("Set-Cookie", cookie)
    return signed_out.ended


def _middleware(request: Any) -> tuple[PresenceMiddleware, RequestData, Verdict]:
    middleware = request.scope.get("presence.middleware")
    if not isinstance(middleware, PresenceMiddleware):
        raise RuntimeError(NO_MIDDLEWARE)
    return middleware, middleware.checker.read_scope(request.scope), request.scope["presence.verdict"]


async def _send_problem(verdict: Verdict, scope: Scope, send: Send) -> None:
    status, headers, body = problem(verdict)
    raw = [(name.lower().encode(), value.encode()) for name, value in headers]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


def _with_cookies(send: Send, cookies: list[str]) -> Send:
    headers = [(b"set-cookie", cookie.encode()) for cookie in cookies]

    async def send_with_cookies(message: Message) -> None:
        if message["type"] in ("http.response.start", "websocket.accept"):
            message = {**message, "headers": [*headers, *message.get("headers", ())]}
        await send(message)

    return send_with_cookies


def _host_of(scope: Scope) -> str:
    """The Host header."""
    return next((value.decode("latin-1") for name, value in scope["headers"] if name.lower() == b"host"), "")


async def read_body(receive: Receive, most: int) -> bytes | None:
    """The body of a request; None if it is longer than ``most`` bytes, empty if the client has gone."""
    body = b""
    while True:
        message: Message = await receive()
        if message["type"] == "http.disconnect":
            return b""
        body += bytes(message.get("body", b""))
        if len(body) > most:
            return None
        if not message.get("more_body"):
            return body
