"""PresenceMiddleware for ASGI: Starlette, FastAPI, Django, and all else that speaks it. It needs none of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from inspect import isawaitable
from typing import Any

from presence_core.client import AsyncPresence, Presence
from presence_core.errors import LoginRefused, PresenceError
from presence_core.models import Ended
from presence_core.web.flow import drive, drive_async
from presence_core.web.gate import Gate, code_of, problem, refusal
from presence_core.web.rules import Asked, Rules, Verdict, Visitor, is_preflight
from presence_core.web.wsgi import check_hooks

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Any, Any, Any], Awaitable[None]]
UserOf = Callable[[Scope], Visitor | str | None]
OnEnded = Callable[[Scope, Ended | None], Any]

ENDED_CODE = 4401
"""A websocket that may not be opened is closed with this code, and with one word for why as its reason."""

AWAY_CODE = 1013
"""… and with "try again later" while Redis is away."""


class PresenceMiddleware:
    """Finds the session of each request and websocket, and refuses who has none, as the ``rules`` say.

    The application reads ``scope["presence"]`` or, with Starlette and FastAPI, ``request.state.presence``: a Session or
    None. ``scope["presence.verdict"]`` says more: ``ip`` is the visitor's address, or None. A LoginRefused that the
    application raises (a block, a limit) is answered with a 403 problem.

    ``user_of(scope)`` says whom the site itself takes a request for: a uid, a Visitor or None.
    ``on_ended(scope, ended)`` answers, with an ASGI application such as a Starlette response (or an awaitable of one),
    who is refused with 401; ``ended`` is None where nothing is known of the session. By default that is a problem+json.
    A websocket is accepted and closed at once, with 4401: a browser hides the reason of one that was never accepted. A
    websocket that is open is not looked at again: watch() for that.

    ``presence`` is an AsyncPresence or, at the price of a thread for each call, a Presence. Cost: one round trip to
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
    ) -> None:
        check_hooks(app=app, user_of=user_of, on_ended=on_ended)
        self.gate = Gate(presence, rules)
        self._presence = presence
        self._app = app
        self._user_of = user_of
        self._on_ended = on_ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, self._closing(receive), send)
            return
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        user_of = self._user_of
        flow = self.gate.check(asked_of(scope), None if user_of is None else lambda: user_of(scope))
        if isinstance(self._presence, AsyncPresence):
            verdict = await drive_async(flow, self._presence)
        else:
            verdict = await asyncio.to_thread(drive, flow, self._presence)
        scope["presence"] = verdict.session
        scope["presence.verdict"] = verdict
        scope.setdefault("state", {})["presence"] = verdict.session
        if verdict.passes:
            cookie = self.gate.set_cookie(verdict)
            await self._pass(scope, receive, send if cookie is None else _with_cookie(send, cookie))
        elif scope["type"] == "websocket":
            await _close(verdict, receive, send)
        else:
            await self._refuse(verdict, scope, receive, send)

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def sending(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except LoginRefused as refused:
            if started or scope["type"] != "http":
                raise
            await _problem(refusal(refused), scope, send)

    async def _refuse(self, verdict: Verdict, scope: Scope, receive: Receive, send: Send) -> None:
        if self._on_ended is not None and verdict.state in ("ended", "unknown", "anonymous"):
            answer = self._on_ended(scope, verdict.ended)
            if isawaitable(answer):
                answer = await answer
            await answer(scope, receive, send)
            return
        await _problem(verdict, scope, send)

    def _closing(self, receive: Receive) -> Receive:
        """When the server goes down, the heartbeats that wait are sent before the application closes its Presence."""

        async def received() -> Message:
            message = await receive()
            if message["type"] == "lifespan.shutdown":
                await self.aclose()
            return message

        return received

    async def aclose(self) -> None:
        """Send the heartbeats that wait. They are not worth an error when Redis is away."""
        try:
            if isinstance(self._presence, AsyncPresence):
                await self.gate.buffer.aclose()
            else:
                await asyncio.to_thread(self.gate.buffer.close)
        except PresenceError:
            pass


async def _problem(verdict: Verdict, scope: Scope, send: Send) -> None:
    status, headers, body = problem(verdict)
    raw = [(name.lower().encode(), value.encode()) for name, value in headers]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


def _with_cookie(send: Send, cookie: str) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] in ("http.response.start", "websocket.accept"):
            message = {**message, "headers": [*message.get("headers", ()), (b"set-cookie", cookie.encode())]}
        await send(message)

    return sending


async def _close(verdict: Verdict, receive: Receive, send: Send) -> None:
    if (await receive())["type"] != "websocket.connect":
        return
    await send({"type": "websocket.accept"})
    code = AWAY_CODE if verdict.state == "unavailable" else ENDED_CODE
    await send({"type": "websocket.close", "code": code, "reason": code_of(verdict)})


def asked_of(scope: Scope) -> Asked:
    """What matters of an ASGI request."""
    values: dict[bytes, list[str]] = {}
    for name, value in scope["headers"]:
        values.setdefault(name.lower(), []).append(value.decode("latin-1"))
    client = scope.get("client")
    agent = values.get(b"user-agent")
    return Asked(
        path=scope["path"] or "/",
        cookie="; ".join(values.get(b"cookie", ())),  # HTTP/2 may split it
        authorization=values.get(b"authorization", [""])[0],
        peer=(client[0] or None) if client else None,
        forwarded=",".join(values.get(b"x-forwarded-for", ())),
        user_agent=agent[0] if agent else None,
        preflight=is_preflight(
            scope.get("method", ""), values.get(b"origin"), values.get(b"access-control-request-method")
        ),
    )
