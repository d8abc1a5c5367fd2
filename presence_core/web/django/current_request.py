"""The request that this thread or task answers: which session it has, and who acts in it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
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


@contextmanager
def answering(request: Any, session: CurrentSession | None) -> Iterator[None]:
    """Make this the current request while it is answered."""
    session_token, request_token = current_session.set(session), current_request.set(request)
    try:
        yield
    finally:
        current_request.reset(request_token)
        current_session.reset(session_token)


def actor(uid: str) -> str:
    """Who changes the account ``uid``, for the audit: its own user by uid, another signed-in user by user name, else
    the program."""
    session, request = current_session.get(), current_request.get()
    if session is not None and session.uid == uid:
        return uid
    if request is not None:
        user = getattr(request, "user", None)  # also one without a Django session, as by a REST framework's token
        if user is not None and user.is_authenticated:
            return staff_name(user)
        return "anonymous visitor" if session is None else session.uid
    return fit_name(_program()) or "Django"


def staff_name(user: Any) -> str:
    """The name of a member of staff in the audit: the user name, as Django's admin shows it."""
    return fit_name(user.get_username()) or str(user.pk)


def _program() -> str | None:
    path = PurePath(sys.argv[0] if sys.argv else "")
    name = path.parent.name if path.name == "__main__.py" else path.name
    if name in ("manage.py", "django", "django-admin") and len(sys.argv) > 1:
        return f"manage.py {sys.argv[1]}"
    return None if name in ("", "-c", "-m", "-") else name
