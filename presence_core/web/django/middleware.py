"""The Django middleware: ``request.presence``, and who is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import SESSION_KEY, logout
from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import resolve_url

from presence_core.errors import Unavailable
from presence_core.web.django import signals
from presence_core.web.django.apps import config
from presence_core.web.flow import drive
from presence_core.web.gate import problem
from presence_core.web.rules import Verdict, Visitor
from presence_core.web.wsgi import asked_of


class PresenceMiddleware:
    """Behind ``AuthenticationMiddleware`` (and ``MessageMiddleware``, if it is used) in MIDDLEWARE.

    ``request.presence`` is the Session of who is signed in, or None; ``request.presence_verdict`` says more. Whose
    session has ended is logged out of Django too, and sent to LOGIN_URL with staff's message, or answered with
    problem+json where no HTML is asked for. Cost: one round trip to Redis for who is signed in, none for others.
    """

    sync_capable = True
    async_capable = False

    def __init__(self, get_response: Callable[[Any], Any]) -> None:
        self._get_response = get_response

    def __call__(self, request: Any) -> Any:
        here = config()
        found: list[Visitor | None] = []

        def user_of() -> Visitor | None:
            found.append(self._visitor(request))
            return found[0]

        verdict = drive(here.gate.check(asked_of(request.META), user_of), here.presence)
        visitor = found[0] if found else None
        request.presence, request.presence_verdict = verdict.session, verdict
        if not verdict.passes:
            return self._refuse(request, verdict)
        if verdict.session is not None and (signals.ID not in request.session or signals.PENDING in request.session):
            request.session[signals.ID] = verdict.session.session_id  # it stays when Django changes the key
            request.session.pop(signals.PENDING, None)
        token = signals.current.set((visitor.uid, str(visitor.session_id)) if visitor is not None else None)
        asked = signals.answering.set(request)
        try:
            return self._get_response(request)
        finally:
            signals.answering.reset(asked)
            signals.current.reset(token)

    def process_exception(self, request: Any, error: Exception) -> HttpResponse | None:
        """A login while Redis is away."""
        return _problem(Verdict(passes=False, state="unavailable")) if isinstance(error, Unavailable) else None

    def _visitor(self, request: Any) -> Visitor | None:
        """Whom Django takes this request for: from its session alone, so that who was kicked is told so even where
        Django would drop the session for a new password."""
        uid = request.session.get(SESSION_KEY)
        if uid is None:
            return None
        session_id = request.session.get(signals.ID)
        if session_id is not None and signals.PENDING not in request.session:
            return Visitor(str(uid), session_id, adopt=False)  # it has begun: what is unknown now has ended long ago
        adopt = session_id is not None or config().rules.mode == "adopt"
        # Django checks its session's hash when it is asked for the user, and drops what does not fit.
        if adopt and not request.user.is_authenticated:
            return None
        details = signals.describe(request, request.user) if adopt else {}
        return Visitor(str(uid), session_id or signals.new_id(request), details, adopt)

    def _refuse(self, request: Any, verdict: Verdict) -> Any:
        if verdict.state == "unavailable":
            return _problem(verdict)
        logout(request)
        on_ended = config().on_ended
        if on_ended is not None:
            return on_ended(request, verdict.ended)
        if not request.accepts("text/html") or request.headers.get("accept", "*/*") == "*/*":
            return _problem(verdict)
        message = verdict.ended.public.sentence if verdict.ended is not None else verdict.sentence
        messages.warning(request, message or "You have been signed out.", fail_silently=True)
        return HttpResponseRedirect(resolve_url(settings.LOGIN_URL))


def _problem(verdict: Verdict) -> HttpResponse:
    status, headers, body = problem(verdict)
    return HttpResponse(body, status=status, headers=dict(headers))
