"""The Django middleware: it sets ``request.presence_session`` and refuses requests whose session has ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import SESSION_KEY, logout
from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import resolve_url

from presence_core.drive_generators import drive
from presence_core.errors import Unavailable
from presence_core.web.django import signals
from presence_core.web.django.config import config
from presence_core.web.django.current_request import CurrentSession, current_request, current_session
from presence_core.web.django.login_details import describe, new_id
from presence_core.web.middleware.refusals import problem
from presence_core.web.middleware.request_data import read_environ
from presence_core.web.rules import Verdict, Visitor


class PresenceMiddleware:
    """Put it after ``AuthenticationMiddleware`` (and ``MessageMiddleware``, if the site uses it) in MIDDLEWARE.

    ``request.presence_session`` is the signed-in user's Session, or None; ``request.presence_verdict`` has the details.
    A user whose session has ended is logged out of Django and redirected to LOGIN_URL with the message of staff. A
    client that does not ask for HTML gets problem+json. Cost: one round trip to Redis for a signed-in user, none for
    others.
    """

    sync_capable = True
    async_capable = False

    def __init__(self, get_response: Callable[[Any], Any]) -> None:
        self._get_response = get_response

    def __call__(self, request: Any) -> Any:
        app = config()
        visitor: Visitor | None = None

        def user_of() -> Visitor | None:
            nonlocal visitor
            visitor = _visitor(request)
            return visitor

        calls = app.checker.check(read_environ(request.META), user_of)
        verdict = drive(calls, lambda call: call(app.presence))
        request.presence_session, request.presence_verdict = verdict.session, verdict
        if not verdict.passes:
            return self._refuse(request, verdict)
        if verdict.session is not None and (signals.ID not in request.session or signals.PENDING in request.session):
            request.session[signals.ID] = verdict.session.session_id  # so that it stays when Django changes the key
            request.session.pop(signals.PENDING, None)
        session = CurrentSession(visitor.uid, str(visitor.session_id)) if visitor is not None else None
        session_token, request_token = current_session.set(session), current_request.set(request)
        try:
            return self._get_response(request)
        finally:
            current_request.reset(request_token)
            current_session.reset(session_token)

    def process_exception(self, request: Any, error: Exception) -> HttpResponse | None:
        """Answer 503 if a login failed because Redis is away."""
        return _problem_response(Verdict(passes=False, state="unavailable")) if isinstance(error, Unavailable) else None

    def _refuse(self, request: Any, verdict: Verdict) -> Any:
        if verdict.state == "unavailable":
            return _problem_response(verdict)
        logout(request)
        on_ended = config().on_ended
        if on_ended is not None:
            return on_ended(request, verdict.ended)
        if not request.accepts("text/html") or request.headers.get("accept", "*/*") == "*/*":
            return _problem_response(verdict)
        message = verdict.ended.public.sentence if verdict.ended is not None else verdict.sentence
        messages.warning(request, message or "You have been signed out.", fail_silently=True)
        return HttpResponseRedirect(resolve_url(settings.LOGIN_URL))


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


def _problem_response(verdict: Verdict) -> HttpResponse:
    status, headers, body = problem(verdict)
    return HttpResponse(body, status=status, headers=dict(headers))
