"""PresenceMiddleware for WSGI applications: Flask, Django and others. It imports none of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from http import HTTPStatus
from itertools import chain, islice
from typing import Any

from presence_core import validation as check
from presence_core.client import Presence
from presence_core.drive_generators import drive
from presence_core.errors import InvalidArgument, LoginRefused, PresenceError
from presence_core.models import Ended
from presence_core.web.middleware.refusals import HOOKED, login_refusal, problem
from presence_core.web.middleware.request_check import RequestChecker
from presence_core.web.middleware.request_data import read_environ
from presence_core.web.rules import Rules, Verdict, Visitor

Environ = dict[str, Any]
App = Callable[[Environ, Any], Iterable[bytes]]
UserOf = Callable[[Environ], Visitor | str | None]
OnEnded = Callable[[Environ, Ended | None], App]


class PresenceMiddleware:
    """Finds the session of each request, and refuses requests without one, as ``rules`` say.

    The application reads ``environ["presence.session"]`` (a Session or None). ``environ["presence.verdict"]`` has the
    details; its ``ip`` is the visitor's address or None. A LoginRefused that the application raises (a block, a limit)
    becomes a 403 problem. Flask catches exceptions before that, so it needs
    ``app.register_error_handler(LoginRefused, login_refused)``.

    ``user_of(environ)`` returns the user that the site itself has signed in: a uid, a Visitor or None.
    ``on_ended(environ, ended)`` returns the WSGI application (such as a Flask response) that answers in place of the
    default 401 problem. ``ended`` is None if nothing is known of the session, or if it lives and its visitor must sign
    in again: ``environ["presence.verdict"].state`` says which. ``tally``, such as a Counter, gets the number of
    requests by outcome (``Verdict.state``); use one for each middleware.

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
        tally: MutableMapping[str, int] | None = None,
    ) -> None:
        if not isinstance(presence, Presence):
            raise InvalidArgument("presence", "must be a Presence: WSGI has no event loop for an AsyncPresence")
        check_hooks(app=app, user_of=user_of, on_ended=on_ended)
        self.checker = RequestChecker(presence, rules, tally)
        self._presence = presence
        self._app = app
        self._user_of = user_of
        self._on_ended = on_ended

    def __call__(self, environ: Environ, start_response: Any) -> Iterable[bytes]:
        user_of = self._user_of
        users = None if user_of is None else lambda: user_of(environ)
        verdict = drive(self.checker.check(read_environ(environ), users), lambda call: call(self._presence))
        environ["presence.session"] = verdict.session
        environ["presence.verdict"] = verdict
        if not verdict.passes:
            return self._refuse(verdict, environ, start_response)
        cookie = self.checker.set_cookie(verdict)
        if cookie is None:
            return self._run_app(environ, start_response)

        def start_with_cookie(status: str, headers: list[tuple[str, str]], *exc_info: Any) -> Any:
            return start_response(status, [*headers, ("Set-Cookie", cookie)], *exc_info)

        return self._run_app(environ, start_with_cookie)

    def _run_app(self, environ: Environ, start_response: Any) -> Iterable[bytes]:
        started = False

        def start(*args: Any) -> Any:
            nonlocal started
            started = True
            return start_response(*args)

        try:
            body = self._app(environ, start)
            return body if started else _Begun(body)
        except LoginRefused as refused:
            exc_info = sys.exc_info()  # if the headers were sent already, start_response raises it again
            return login_refused(refused)(environ, lambda *start: start_response(*start, exc_info))

    def _refuse(self, verdict: Verdict, environ: Environ, start_response: Any) -> Iterable[bytes]:
        if self._on_ended is not None and verdict.state in HOOKED:
            return self._on_ended(environ, verdict.ended)(environ, start_response)
        return _problem_app(verdict)(environ, start_response)

    def close(self) -> None:
        """Send the waiting heartbeats. If Redis is away they are dropped, without an error."""
        try:
            self.checker.buffer.close()
        except PresenceError:
            pass


class _Begun:
    """The body of an application that begins when it is read, as a generator does: it has run up to the first item."""

    def __init__(self, body: Iterable[bytes]) -> None:
        self.close: Callable[[], object] = getattr(body, "close", lambda: None)
        try:
            items = iter(body)
            self._items = chain(list(islice(items, 1)), items)
        except BaseException:
            self.close()
            raise

    def __iter__(self) -> Iterator[bytes]:
        return self._items


def _problem_app(verdict: Verdict) -> App:
    status, headers, body = problem(verdict)

    def app(environ: Environ, start_response: Any) -> Iterable[bytes]:
        start_response(f"{status} {HTTPStatus(status).phrase}", headers)
        return [] if environ.get("REQUEST_METHOD") == "HEAD" else [body]

    return app


def login_refused(error: LoginRefused) -> App:
    """A WSGI application that answers with a 403 problem. Flask's error handlers may return one."""
    return _problem_app(login_refusal(error))


def check_hooks(*, app: object, **hooks: object) -> None:
    """Raise InvalidArgument if the application or a hook cannot be called."""
    if not callable(app):
        raise InvalidArgument("app", "must be an application")
    for name, hook in hooks.items():
        check.callback(name, hook)
