"""PresenceMiddleware for WSGI: Flask, Django, and everything else that speaks it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any

from presence_core.client import Presence
from presence_core.errors import InvalidArgument, LoginRefused, PresenceError
from presence_core.models import Ended
from presence_core.web.flow import drive
from presence_core.web.gate import Gate, problem, refusal
from presence_core.web.rules import Asked, Rules, Verdict, Visitor, is_preflight

Environ = dict[str, Any]
App = Callable[[Environ, Any], Iterable[bytes]]
UserOf = Callable[[Environ], Visitor | str | None]
OnEnded = Callable[[Environ, Ended | None], App]


class PresenceMiddleware:
    """Finds the session of each request, and refuses who has none, as the ``rules`` say.

    The application reads ``environ["presence.session"]`` (a Session or None) and, where it wants to know more,
    ``environ["presence.verdict"]``: its ``ip`` is the visitor's address, or None. A LoginRefused that the application
    raises (a block, a limit) is answered with a 403 problem; Flask catches exceptions before that, so it needs
    ``app.register_error_handler(LoginRefused, login_refused)``.

    ``user_of(environ)`` says whom the site itself takes a request for: a uid, a Visitor or None.
    ``on_ended(environ, ended)`` answers, with a WSGI application such as a Flask response, who is refused with 401;
    ``ended`` is None where nothing is known of the session. By default that is a problem+json.

    Cost: one round trip to Redis for a request that names a session, none for others.
    """

    def __init__(
        self,
        app: App,
        presence: Presence,
        *,
        rules: Rules | None = None,
        user_of: UserOf | None = None,
        on_ended: OnEnded | None = None,
    ) -> None:
        if not isinstance(presence, Presence):
            raise InvalidArgument("presence", "must be a Presence: WSGI has no event loop for an AsyncPresence")
        check_hooks(app=app, user_of=user_of, on_ended=on_ended)
        self.gate = Gate(presence, rules)
        self._presence = presence
        self._app = app
        self._user_of = user_of
        self._on_ended = on_ended

    def __call__(self, environ: Environ, start_response: Any) -> Iterable[bytes]:
        user_of = self._user_of
        users = None if user_of is None else lambda: user_of(environ)
        verdict = drive(self.gate.check(asked_of(environ), users), self._presence)
        environ["presence.session"] = verdict.session
        environ["presence.verdict"] = verdict
        if not verdict.passes:
            return self._refuse(verdict, environ, start_response)
        cookie = self.gate.set_cookie(verdict)
        if cookie is None:
            return self._pass(environ, start_response)

        def start_with_cookie(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
            return start_response(status, [*headers, ("Set-Cookie", cookie)], *more)

        return self._pass(environ, start_with_cookie)

    def _pass(self, environ: Environ, start_response: Any) -> Iterable[bytes]:
        try:
            return self._app(environ, start_response)
        except LoginRefused as refused:
            failed = sys.exc_info()  # should the head have been sent already, start_response raises it again
            return login_refused(refused)(environ, lambda *start: start_response(*start, failed))

    def _refuse(self, verdict: Verdict, environ: Environ, start_response: Any) -> Iterable[bytes]:
        if self._on_ended is not None and verdict.state in ("ended", "unknown", "anonymous"):
            return self._on_ended(environ, verdict.ended)(environ, start_response)
        return _problem(verdict)(environ, start_response)

    def close(self) -> None:
        """Send the heartbeats that wait. They are not worth an error when Redis is away."""
        try:
            self.gate.buffer.close()
        except PresenceError:
            pass


def _problem(verdict: Verdict) -> App:
    status, headers, body = problem(verdict)

    def answer(environ: Environ, start_response: Any) -> Iterable[bytes]:
        start_response(f"{status} {HTTPStatus(status).phrase}", headers)
        return [] if environ.get("REQUEST_METHOD") == "HEAD" else [body]

    return answer


def login_refused(error: LoginRefused) -> App:
    """A 403 problem as a WSGI application: Flask's error handlers may return one."""
    return _problem(refusal(error))


def check_hooks(*, app: object, **hooks: object) -> None:
    """Raise InvalidArgument for what cannot be called."""
    if not callable(app):
        raise InvalidArgument("app", "must be an application")
    for name, hook in hooks.items():
        if hook is not None and not callable(hook):
            raise InvalidArgument(name, "must be a function")


def asked_of(environ: Environ) -> Asked:
    """What matters of a WSGI request."""
    path = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
    return Asked(
        path=path.encode("latin-1", "replace").decode("utf-8", "replace") or "/",
        cookie=environ.get("HTTP_COOKIE", ""),
        authorization=environ.get("HTTP_AUTHORIZATION", ""),
        peer=environ.get("REMOTE_ADDR") or None,
        forwarded=environ.get("HTTP_X_FORWARDED_FOR", ""),
        user_agent=environ.get("HTTP_USER_AGENT"),
        preflight=is_preflight(
            environ.get("REQUEST_METHOD", ""),
            environ.get("HTTP_ORIGIN"),
            environ.get("HTTP_ACCESS_CONTROL_REQUEST_METHOD"),
        ),
    )
