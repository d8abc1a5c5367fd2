"""Your devices in Django: ``path("devices/", include("presence_core.web.django.your_devices"))`` in the site's URLs.

The page is ``{% url "your_devices" %}``. The setting ``PRESENCE_YOUR_DEVICES`` is a dict of DeviceOptions. Without it,
the key comes from SECRET_KEY, the link to sign in again from LOGIN_URL, and the language is that of Django's
translations.
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth import logout
from django.http import HttpResponse
from django.urls import path, re_path
from django.utils.translation import get_language
from django.views.decorators.csrf import csrf_exempt

from presence_core.drive_generators import drive
from presence_core.web.django.config import config
from presence_core.web.your_devices.exchange import MAX_BODY, NO_MIDDLEWARE, DeviceRequest, body_length, join_headers

__all__ = ["urlpatterns", "your_devices"]


@csrf_exempt  # type: ignore[untyped-decorator]  # it checks a token of its own, also for JSON
def your_devices(request: Any, path: str = "") -> HttpResponse:
    """The view: a visitor's devices, also as JSON. It serves WSGI and ASGI."""
    app = config()
    calls = app.your_devices.answer(_read(request, path))
    response = drive(calls, lambda call: call(app.presence))
    if response.ended_this:
        logout(request)
    return HttpResponse(response.body, status=response.status, headers=dict(response.headers))


def _read(request: Any, path: str) -> DeviceRequest:
    verdict = getattr(request, "presence_verdict", None)
    if verdict is None:
        raise RuntimeError(NO_MIDDLEWARE)
    return DeviceRequest(
        method=request.method,
        path=f"/{path}",
        url_path=request.path,
        query=request.META.get("QUERY_STRING", ""),
        headers=join_headers(request.headers.items()),
        session=verdict.session,
        verdict=verdict,
        body=_body(request) if request.method == "POST" else b"",
        language=get_language(),
    )


def _body(request: Any) -> bytes | None:
    length = body_length(request.META)
    if not length:  # without a length, Django would read a body of any size into memory
        return None if length is None else b""
    body: bytes = request.body
    return body if len(body) <= MAX_BODY else None


urlpatterns = [path("", your_devices, name="your_devices"), re_path(r"^(?P<path>.+)$", your_devices)]
