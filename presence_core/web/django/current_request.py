"""The request that this thread or task answers: which session it has, and who acts in it."""

from __future__ import annotations

import sys
from contextvars import ContextVar
from pathlib import PurePath
from typing import Any, NamedTuple

from presence_core.web.django.login_details import fit_name


class CurrentSession(NamedTuple):
    """The session that the request names."""

    uid: str
    session_id: str


current_session: ContextVar[CurrentSession | None] = ContextVar("presence_current_session", default=None)

current_request: ContextVar[Any] = ContextVar("presence_current_request", default=None)
"""The Django request, or None outside of the middleware."""


def actor() -> str:
    """The name for the audit: the user of the current request, else the program's name."""
    session, request = current_session.get(), current_request.get()
    if session is not None:
        return session.uid
    if request is not None:
        user = getattr(request, "user", None)  # signed in without a Django session, as by a REST framework's token
        return str(user.pk) if user is not None and user.is_authenticated else "anonymous visitor"
    return fit_name(_program()) or "Django"


def _program() -> str | None:
    path = PurePath(sys.argv[0] if sys.argv else "")
    name = path.parent.name if path.name == "__main__.py" else path.name
    if name in ("manage.py", "django", "django-admin") and len(sys.argv) > 1:
        return f"manage.py {sys.argv[1]}"
    return None if name in ("", "-c", "-m", "-") else name
