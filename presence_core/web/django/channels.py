"""Middleware for Django Channels. It imports nothing of Channels."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from asgiref.sync import sync_to_async
from django.contrib.auth import SESSION_KEY
from django.core.exceptions import ImproperlyConfigured

from presence_core.drive_generators import drive
from presence_core.web.django import signals
from presence_core.web.django.config import config
from presence_core.web.middleware.websockets import run_websocket
from presence_core.web.rules import Verdict, Visitor, hashed_id
from presence_core.web.wsgi import check_hooks


class PresenceMiddleware:
    """Refuses the websockets of ended sessions, and closes an open one when its session ends.

    Put it inside of ``AuthMiddlewareStack``, around the ``URLRouter``. PRESENCE_RULES apply as to requests. A consumer
    reads ``scope["presence.session"]``, the signed-in user's Session or None, and ``scope["presence.verdict"]``.

    A websocket of a session that has ended or must sign in again is accepted and closed with 4401 and the reason in one
    word; while Redis is away with 1013. An open one is closed in the same way about 0.1 s after the end, except for the
    paths of ``Rules.keep_open``; its consumer receives a disconnect. A message of the visitor counts as seen, except
    for ``Rules.passive``. Visitors who are not signed in to Django pass unless ``Rules.anonymous`` is "refuse".

    Cost: one round trip to Redis for each websocket that a signed-in user opens; while any is open, one thread that
    reads the events ten times a second.
    """

    def __init__(self, app: Callable[[Any, Any, Any], Awaitable[None]]) -> None:
        check_hooks(app=app)
        self._app = app

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "websocket":  # Django's own middleware checks requests
            await self._app(scope, receive, send)
            return
        if "session" not in scope:
            raise ImproperlyConfigured("The websocket has no session: put PresenceMiddleware into AuthMiddlewareStack.")
        verdict = await sync_to_async(_check)(scope)
        scope = {**scope, "presence.session": verdict.session, "presence.verdict": verdict}
        app = config()
        await run_websocket(self._app, app.presence, app.checker, verdict, scope, receive, send)


def _check(scope: MutableMapping[str, Any]) -> Verdict:
    """In the thread of Django's own work: it may read the Django session."""
    app = config()
    calls = app.checker.check(app.checker.read_scope(scope), lambda: _visitor(scope["session"]))
    return drive(calls, lambda call: call(app.presence))


def _visitor(session: Any) -> Visitor | None:
    """The user that Django has signed in. A websocket begins no session: it has no answer that could say why not."""
    uid, session_id = session.get(SESSION_KEY), session.get(signals.ID)
    if uid is None:
        return None
    if session_id is None or signals.PENDING in session:  # the user's next request begins it
        return (
            None if config().rules.mode == "adopt" else Visitor(str(uid), hashed_id(session.session_key), adopt=False)
        )
    return Visitor(str(uid), session_id, adopt=False)
