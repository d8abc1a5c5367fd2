"""``fresh_session``: a view that needs an authentication of a short time ago."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.contrib import messages
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpResponseRedirect

from presence_core import validation as check
from presence_core.web.django.config import config
from presence_core.web.django.responses import login_url, problem_response, wants_html
from presence_core.web.middleware.refusals import stale
from presence_core.web.rules import Verdict

View = Callable[..., Any]


def fresh_session(max_age: int) -> Callable[[View], View]:
    """Let a signed-in user pass only if they authenticated at most ``max_age`` seconds ago, by the clock of Redis.

    Others are redirected to LOGIN_URL and return after the login, without losing their session. A client that does not
    ask for HTML gets a 401 problem with the code "authentication_too_old". A request without a session passes: add
    ``login_required``. Works for asynchronous views too. Cost: none.
    """
    limit = check.seconds("max_age", max_age)

    def decorate(view: View) -> View:
        if iscoroutinefunction(view):

            @wraps(view)
            async def answer_async(request: Any, *args: Any, **kwargs: Any) -> Any:
                return _refusal(request, limit) or await view(request, *args, **kwargs)

            return answer_async

        @wraps(view)
        def answer(request: Any, *args: Any, **kwargs: Any) -> Any:
            return _refusal(request, limit) or view(request, *args, **kwargs)

        return answer

    return decorate


def _refusal(request: Any, max_age: int) -> Any:
    verdict = getattr(request, "presence_verdict", None)
    if not isinstance(verdict, Verdict):
        raise ImproperlyConfigured("fresh_session needs presence_core's PresenceMiddleware in MIDDLEWARE.")
    refused = None if config().rules.mode == "observe" else stale(verdict, max_age)
    return None if refused is None else ask_again(request, refused)


def ask_again(request: Any, verdict: Verdict) -> Any:
    """The answer to a request whose user must authenticate again; they stay signed in."""
    if verdict.state == "unavailable" or not wants_html(request):
        return problem_response(verdict)
    messages.info(request, "Please sign in again to do this.", fail_silently=True)
    if request.method in ("GET", "HEAD"):
        return redirect_to_login(request.get_full_path(), login_url(request))
    return HttpResponseRedirect(login_url(request))  # a browser would open the next page with GET
