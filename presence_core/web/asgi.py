"""PresenceMiddleware for ASGI applications: Starlette, FastAPI, Django and others. It imports none of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from inspect import isawaitable
from typing import Any, Final

from presence_core.client import AsyncPresence, Presence
from presence_core.drive_generators import drive, drive_async
from presence_core.errors import LoginRefused, PresenceError
from presence_core.models import Ended
from presence_core.web.middleware.refusals import HOOKED, code_of, login_refusal, problem
from presence_core.web.middleware.request_check import RequestChecker
from presence_core.web.middleware.request_data import read_scope
from presence_core.web.rules import Rules, Verdict, Visitor
from presence_core.web.wsgi import check_hooks

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Any, Any, Any], Awaitable[None]]
UserOf = Callable[[Scope], Visitor | str | None]
OnEnded = Callable[[Scope, Ended | None], Any]

WEBSOCKET_REFUSED: Final = 4401
"""Close code of a websocket that is refused. The close reason is one word, such as "kicked"."""

WEBSOCKET_TRY_LATER: Final = 1013
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
    accepted. An open websocket is not checked again; use ``watch()`` for that.

    ``presence`` is an AsyncPresence, or a Presence, which then uses a thread for each call. Cost: one round trip to
    Redis for a request that names a session, none for others.
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
        scope.setdefault("state", {})["session"] = verdict.session
        if verdict.passes:
            cookie = None if verdict.token is None else self.checker.set_cookie(verdict)
            await self._run_app(scope, receive, send if cookie is None else _with_cookie(send, cookie))
        elif scope["type"] == "websocket":
            await _close_websocket(verdict, receive, send)
        else:
            await self._refuse(verdict, scope, receive, send)

    async def _check(self, scope: Scope) -> Verdict:
        user_of, presence = self._user_of, self._presence
        calls = self.checker.check(read_scope(scope), None if user_of is None else lambda: user_of(scope))
        if isinstance(presence, AsyncPresence):
            return await drive_async(calls, lambda call: call(presence))
        return await asyncio.to_thread(drive, calls, lambda call: call(presence))

    async def _run_app(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        def note_start(message: Message) -> Awaitable[None]:
            nonlocal started
            started = True
            return send(message)

        try:
            await self._app(scope, receive, note_start)
        except LoginRefused as refused:
            if started or scope["type"] != "http":
                raise
            await _send_problem(login_refusal(refused), scope, send)

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


async def _send_problem(verdict: Verdict, scope: Scope, send: Send) -> None:
    status, headers, body = problem(verdict)
    raw = [(name.lower().encode(), value.encode()) for name, value in headers]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


def _with_cookie(send: Send, cookie: str) -> Send:
    async def send_with_cookie(message: Message) -> None:
        if message["type"] in ("http.response.start", "websocket.accept"):
            message = {**message, "headers": [*message.get("headers", ()), (b"set-cookie", cookie.encode())]}
        await send(message)

    return send_with_cookie


async def _close_websocket(verdict: Verdict, receive: Receive, send: Send) -> None:
    if (await receive())["type"] != "websocket.connect":
        return
    await send({"type": "websocket.accept"})
    code = WEBSOCKET_TRY_LATER if verdict.state == "unavailable" else WEBSOCKET_REFUSED
    await send({"type": "websocket.close", "code": code, "reason": code_of(verdict)})
