"""The Django middleware: it sets ``request.presence_session`` and refuses requests whose session has ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from asgiref.sync import iscoroutinefunction, markcoroutinefunction, sync_to_async
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import SESSION_KEY, logout
from django.contrib.auth.views import redirect_to_login
from django.http import HttpResponse, HttpResponseForbidden, HttpResponseRedirect
from django.template import TemplateDoesNotExist, loader
from django.utils.html import format_html

from presence_core.drive_generators import drive
from presence_core.errors import Unavailable
from presence_core.web.cookies import DEVICE_COOKIE, DEVICE_LIFE
from presence_core.web.django import signals
from presence_core.web.django.config import config
from presence_core.web.django.current_request import CurrentSession, answering
from presence_core.web.django.decorators import ask_again
from presence_core.web.django.login_details import describe, new_id
from presence_core.web.django.responses import login_url, problem_response, wants_html
from presence_core.web.middleware.event_streams import PartsUntilEnd, parts_until_end
from presence_core.web.middleware.open_connections import is_event_stream
from presence_core.web.middleware.refusals import login_refusal
from presence_core.web.rules import Verdict, Visitor

FORBIDDEN = (
    '<!doctype html><html lang="en"><meta name="viewport" content="width=device-width"><title>403 Forbidden</title>'
    "<h1>403 Forbidden</h1><p>{}</p></html>"
)


class _Decision(NamedTuple):
    refusal: Any = None  #: the response to a refused request; None: it passes
    session: CurrentSession | None = None


class PresenceMiddleware:
    """Put it after ``AuthenticationMiddleware`` (and ``MessageMiddleware``, if the site uses it) in MIDDLEWARE.

    ``request.presence_session`` is the signed-in user's Session, or None; ``request.presence_verdict`` has the details.
    A user whose session has ended is logged out of Django and redirected to LOGIN_URL (in the admin: to its login page)
    with the message of staff, and returns to the page after the login. A client that does not ask for HTML gets
    problem+json. Cost: one round trip to Redis for a signed-in user, none for others.

    An event stream (a StreamingHttpResponse of type text/event-stream) ends when its session ends, except for the paths
    of ``Rules.keep_open``: with an asynchronous iterator in about 0.1 s, with another one at its next part.

    Under ASGI the views stay asynchronous. Only the check runs in the thread of the request, as Django's own session
    does.
    """

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[Any], Any]) -> None:
        self._get_response = get_response
        self._is_async = iscoroutinefunction(get_response)
        if self._is_async:
            markcoroutinefunction(self)
        if getattr(settings, "PRESENCE_LOGOUT_SPOOL", None):
            from presence_core.web.backchannel_logout.django import receiver

            receiver()

    def __call__(self, request: Any) -> Any:
        if self._is_async:
            return self._answer_async(request)
        refusal, session = self._check(request)
        if refusal is not None:
            return refusal
        with answering(request, session):
            return _until_end(request, _with_device_cookie(request, self._get_response(request)))

    async def _answer_async(self, request: Any) -> Any:
        refusal, session = await sync_to_async(self._check)(request)
        if refusal is not None:
            return refusal
        with answering(request, session):
            return _until_end(request, _with_device_cookie(request, await self._get_response(request)))

    def _check(self, request: Any) -> _Decision:
        app = config()
        visitor: Visitor | None = None

        def user_of() -> Visitor | None:
            nonlocal visitor
            visitor = _visitor(request)
            return visitor

        calls = app.checker.check(app.checker.read_environ(request.META)._replace(path=_path_of(request)), user_of)
        verdict = drive(calls, lambda call: call(app.presence))
        request.presence_session, request.presence_verdict = verdict.session, verdict
        if not verdict.passes:
            return _Decision(_refuse(request, verdict))
        if verdict.session is not None and (signals.ID not in request.session or signals.PENDING in request.session):
            request.session[signals.ID] = verdict.session.session_id  # so that it stays when Django changes the key
            request.session.pop(signals.PENDING, None)
        return _Decision(None, None if visitor is None else CurrentSession(visitor.uid, str(visitor.session_id)))

    def process_exception(self, request: Any, error: Exception) -> HttpResponse | None:
        """Answer 503 if a login failed because Redis is away, and 403 with the reason if a block refuses it."""
        if isinstance(error, Unavailable):
            return problem_response(Verdict(passes=False, state="unavailable"))
        if not isinstance(error, signals.LoginDenied):
            return None
        if not wants_html(request):
            return problem_response(login_refusal(error.refused))
        try:
            loader.get_template("403.html")
        except TemplateDoesNotExist:  # Django's own page does not say why
            return HttpResponseForbidden(format_html(FORBIDDEN, str(error)))
        return None


def _with_device_cookie(request: Any, response: Any) -> Any:
    """After a login, the answer keeps the id of the device."""
    device_id = getattr(request, "presence_device_id", None)
    if device_id is not None:
        response.set_cookie(DEVICE_COOKIE, device_id, max_age=DEVICE_LIFE, secure=True, httponly=True, samesite="Lax")
    return response


def _until_end(request: Any, response: Any) -> Any:
    """An event stream ends when its session has ended."""
    app, verdict = config(), request.presence_verdict
    if (
        verdict.session is None
        or not getattr(response, "streaming", False)
        or not is_event_stream(response.get("Content-Type", ""))
    ):
        return response
    if app.checker.closes(verdict, _path_of(request)):
        parts = response.streaming_content
        end = parts_until_end if response.is_async else PartsUntilEnd
        response.streaming_content = end(parts, app.presence, verdict.session)
    return response


def _path_of(request: Any) -> str:
    """Django has decoded the path in META, unlike a WSGI server."""
    return request.META.get("SCRIPT_NAME", "") + request.META.get("PATH_INFO", "") or "/"


def _refuse(request: Any, verdict: Verdict) -> Any:
    if verdict.state == "unavailable":
        return problem_response(verdict)
    if verdict.state == "authentication_too_old":
        return ask_again(request, verdict)
    logout(request)
    on_ended = config().on_ended
    if on_ended is not None:
        return on_ended(request, verdict.ended)
    if not wants_html(request):
        return problem_response(verdict)
    message = verdict.ended.public.sentence if verdict.ended is not None else verdict.sentence
    messages.warning(request, message or "You have been signed out.", fail_silently=True)
    if request.method in ("GET", "HEAD"):
        return redirect_to_login(request.get_full_path(), login_url(request))
    return HttpResponseRedirect(login_url(request))  # a browser would open the next page with GET


def _visitor(request: Any) -> Visitor | None:
    """The user that Django has signed in, from the Django session alone: a kicked user whose password also changed gets
    the kick's message, although Django would drop that session."""
    uid = request.session.get(SESSION_KEY)
    if uid is None:
        return None
    session_id = request.session.get(signals.ID)
    if session_id is not None and signals.PENDING not in request.session:
        return Visitor(str(uid), session_id, adopt=False)  # it has begun, so if it is unknown now, it ended long ago
    adopt = session_id is not None or config().rules.mode == "adopt"
    # Reading request.user makes Django check the session's hash, and drop a session that does not match.
    if adopt and not request.user.is_authenticated:
        return None
    details = describe(request, request.user) if adopt else {}
    return Visitor(str(uid), session_id or new_id(request), details, adopt)
