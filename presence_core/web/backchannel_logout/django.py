"""Back-channel logout in Django: ``path("backchannel-logout", backchannel_logout)`` in the site's URLs.

The setting ``PRESENCE_ISSUERS`` is a list of dicts, each with the fields of ``Issuer``; ``PRESENCE_LOGOUT_SPOOL`` may
name a folder. With a folder, ``PresenceMiddleware`` tries at the start of a process what the one before has left.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from django.conf import settings
from django.http import HttpResponse
from django.views.decorators.csrf import csrf_exempt

from presence_core.web.backchannel_logout.issuers import make_issuers
from presence_core.web.backchannel_logout.receiver import MAX_BODY, LogoutReceiver
from presence_core.web.backchannel_logout.wsgi import BackchannelLogout
from presence_core.web.django.config import config


@lru_cache(maxsize=1)
def receiver() -> BackchannelLogout:
    """That of the settings, which begins with what waits in the spool."""
    issuers = make_issuers(getattr(settings, "PRESENCE_ISSUERS", ()))
    spool = getattr(settings, "PRESENCE_LOGOUT_SPOOL", None)
    return BackchannelLogout(config().presence, LogoutReceiver(issuers, spool=spool))


@csrf_exempt  # type: ignore[untyped-decorator]  # the caller is the provider, and its token is signed
def backchannel_logout(request: Any) -> HttpResponse:
    """The view, of WSGI and ASGI."""
    length = request.META.get("CONTENT_LENGTH") or "0"
    fits = length.isascii() and length.isdigit() and len(length) < 10 and int(length) <= MAX_BODY
    body = request.body if fits and request.method == "POST" else None
    response = receiver().respond(request.method, request.META.get("CONTENT_TYPE", ""), body)
    return HttpResponse(response.body, status=response.status, headers=dict(response.headers))
