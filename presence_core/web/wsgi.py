"""PresenceMiddleware for WSGI applications: Flask, Django and others. It imports none of them."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from http import HTTPStatus
from itertools import chain, islice
from typing import Any, TypeVar

from presence_core import validation as check
from presence_core.client import Presence
from presence_core.drive_generators import ClientCalls, drive
from presence_core.errors import InvalidArgument, LoginRefused, PresenceError
from presence_core.models import Ended, Login
from presence_core.schema.failures import SiteFailure
from presence_core.web.middleware.event_streams import PartsUntilEnd
from presence_core.web.middleware.open_connections import is_event_stream
from presence_core.web.middleware.refusals import HOOKED, login_refusal, problem
from presence_core.web.middleware.request_check import RequestChecker
from presence_core.web.middleware.request_data import RequestData
from presence_core.web.middleware.sign_in_out import (
    NO_MIDDLEWARE,
    login_failed_calls,
    sign_in_calls,
    sign_out_calls,
)
from presence_core.web.rules import Rules, Verdict, Visitor

T = TypeVar("T")

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

    An event stream (a response of type text/event-stream) of a session that ends, or must sign in again, sends nothing
    more: it ends where the application makes its next part, except for the paths of ``Rules.keep_open``.

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
            raise InvalidArgument(
                "presence", "must be a Presence: WSGI has no event loop for an AsyncPresence", "wrong_type"
            )
        check_hooks(app=app, user_of=user_of, on_ended=on_ended)
        if takes_only(app, 3):
            raise InvalidArgument("app", "must be a WSGI application, not an ASGI one: for that, import"
                                  " PresenceMiddleware from presence_core.web.asgi", "wrong_type")  # fmt: skip
        self.checker = RequestChecker(presence, rules, tally)
        self._presence = presence
        self._app = app
        self._user_of = user_of
        self._on_ended = on_ended

    def __call__(self, environ: Environ, start_response: Any) -> Iterable[bytes]:
        user_of, request = self._user_of, self.checker.read_environ(environ)
        users = None if user_of is None else lambda: user_of(environ)
        verdict = drive(self.checker.check(request, users), lambda call: call(self._presence))
        environ["presence.session"] = verdict.session
        environ["presence.verdict"] = verdict
        environ["presence.middleware"] = self
        if verdict.token is not None or verdict.clears_cookies:
            url_path = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
            cookies = self.checker.set_cookies(verdict, url_path, environ.get("HTTP_HOST", ""))
            start_response = _with_cookies(start_response, cookies)
        if not verdict.passes:
            return self._refuse(verdict, environ, start_response)
        return self._run_app(verdict, request.path, environ, start_response)

    def run(self, calls: ClientCalls[T]) -> T:
        """Carry out calls of the client."""
        return drive(calls, lambda call: call(self._presence))

    def _run_app(self, verdict: Verdict, path: str, environ: Environ, start_response: Any) -> Iterable[bytes]:
        started = streams = False

        def start(status: str, headers: list[tuple[str, str]], *exc_info: Any) -> Any:
            nonlocal started, streams
            started = True
            streams = any(name.lower() == "content-type" and is_event_stream(value) for name, value in headers)
            return start_response(status, headers, *exc_info)

        try:
            body = self._app(environ, start)
            body = body if started else _Begun(body)
        except LoginRefused as refused:
            exc_info = sys.exc_info()  # if the headers were sent already, start_response raises it again
            return login_refused(refused)(environ, lambda *start: start_response(*start, exc_info))
        if streams and verdict.session is not None and self.checker.closes(verdict, path):
            return PartsUntilEnd(body, self._presence, verdict.session)
        return body

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


def _with_cookies(start_response: Any, cookies: list[str]) -> Any:
    added = [("Set-Cookie", cookie) for cookie in cookies]

    def start_with_cookies(status: str, headers: list[tuple[str, str]], *exc_info: Any) -> Any:
        return start_response(status, [*added, *headers], *exc_info)

    return start_with_cookies


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


def sign_in(
    response: Any, request: Any, uid: str, *, max_age: int | None = None, device_cookie: bool = True, **login: Any
) -> Login:
    """Begin a session for ``uid`` in this browser, and set its cookie on the response. Call it once you have checked
    the password. Address and user agent are those of the request.

    request: of Flask or werkzeug, behind the middleware. response: with ``headers.add``. login: other arguments of
    ``login``. max_age: of the cookie, seconds; None: until the browser closes. device_cookie: keep a random id on the
    device (docs/use/odd_logins.md), unless ``device_id`` is given.

    The sessions that the request names end first, of any user, and those of this user on the same ``device_id``. A
    session ``on_behalf_by`` staff neither ends others nor is ended. Raises LoginRefused. Cost: two to five round trips.
    """
    middleware, data, verdict = _middleware(request)
    signed_in = middleware.run(
        sign_in_calls(middleware.checker, data, verdict, uid, login, max_age=max_age, device_cookie=device_cookie)
    )
    for cookie in signed_in.cookies:
        response.headers.add("Set-Cookie", cookie)
    return signed_in.login


def sign_in_failed(request: Any, who: str, *, why: SiteFailure, is_uid: bool = False, app: str | None = None) -> None:
    """Record a sign-in that your site refused, with address and user agent of the request: ``Presence.login_failed``.

    who: the uid, or the text as it was typed; never a password. is_uid: it is the uid of an account of yours. Raises
    nothing while Redis is away; the log says so.
    Cost: two round trips.
    """
    middleware, data, verdict = _middleware(request)
    middleware.run(login_failed_calls(data, verdict, who, why, is_uid, app))


def sign_out(response: Any, request: Any) -> int:
    """End every live session that the request names, and delete the cookie; the arguments are those of ``sign_in``.

    Returns the number of sessions that have ended: 0 if there was none, which is no error. Cost: two round trips.
    """
    middleware, data, verdict = _middleware(request)
    signed_out = middleware.run(sign_out_calls(middleware.checker, data, verdict))
    for cookie in signed_out.cookies:
        response.headers.add("Set-Cookie", cookie)
    return signed_out.ended


def _middleware(request: Any) -> tuple[PresenceMiddleware, RequestData, Verdict]:
    middleware = request.environ.get("presence.middleware")
    if not isinstance(middleware, PresenceMiddleware):
        raise RuntimeError(NO_MIDDLEWARE)
    return middleware, middleware.checker.read_environ(request.environ), request.environ["presence.verdict"]


def _problem_app(verdict: Verdict) -> App:
    status, headers, body = problem(verdict)

    def app(environ: Environ, start_response: Any) -> Iterable[bytes]:
        start_response(f"{status} {HTTPStatus(status).phrase}", headers)
        return [] if environ.get("REQUEST_METHOD") == "HEAD" else [body]

    return app


def login_refused(error: LoginRefused) -> App:
    """A WSGI application that answers with a 403 problem. Flask's error handlers may return one."""
    return _problem_app(login_refusal(error))


def takes_only(app: Callable[..., object], number: int) -> bool:
    """Whether an application takes this number of arguments, and not the other one: WSGI has two, ASGI three."""
    try:
        signature = inspect.signature(app)
    except (TypeError, ValueError):  # written in C: nothing is known
        return False

    def fits(count: int) -> bool:
        try:
            signature.bind(*range(count))
        except TypeError:
            return False
        return True

    return fits(number) and not fits(5 - number)


def check_hooks(*, app: object, **hooks: object) -> None:
    """Raise InvalidArgument if the application or a hook cannot be called."""
    if not callable(app):
        raise InvalidArgument("app", "must be an application", "wrong_type")
    for name, hook in hooks.items():
        check.callback(name, hook)
