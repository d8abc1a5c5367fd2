"""Parts of the responses to a request that is refused."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import HttpResponse
from django.shortcuts import resolve_url
from django.urls import NoReverseMatch, Resolver404, resolve, reverse

from presence_core.web.middleware.refusals import problem
from presence_core.web.rules import Verdict


def login_url(request: Any) -> str:
    """The admin's own login page for a page of the admin, else LOGIN_URL."""
    try:
        match = resolve(request.path_info, getattr(request, "urlconf", None))
        if "admin" in match.app_names:
            namespace = ":".join(match.namespaces[: match.app_names.index("admin") + 1])
            return str(reverse(f"{namespace}:login", urlconf=getattr(request, "urlconf", None)))
    except (Resolver404, NoReverseMatch):
        pass
    return str(resolve_url(settings.LOGIN_URL))


def wants_html(request: Any) -> bool:
    return request.headers.get("accept", "*/*") != "*/*" and bool(request.accepts("text/html"))


def problem_response(verdict: Verdict) -> HttpResponse:
    status, headers, body = problem(verdict)
    return HttpResponse(body, status=status, headers=dict(headers))
