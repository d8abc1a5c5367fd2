"""What a login records about a Django user, and the id of the new session."""

from __future__ import annotations

import logging
import unicodedata
from typing import Any, Final

from presence_core.errors import InvalidArgument
from presence_core.logs import fields
from presence_core.operations.sessions.login_row import check_row
from presence_core.validation import CUT_MARK, TEN_YEARS
from presence_core.web.django.config import config
from presence_core.web.rules import hashed_id

MAX_NAME: Final = 256
"""Bytes of a name or an alias."""

log = logging.getLogger(__name__)


def describe(request: Any, user: Any) -> dict[str, Any]:
    """Arguments of ``login``."""
    app = config()
    details = _names(user) | _timeouts(request)
    if app.describe is None:
        return details
    extra = dict(app.describe(request, user))
    try:
        check_row(app.presence.settings, app.presence.internal.context.visitor, {"uid": "any", **details, **extra}, "")
    except InvalidArgument as error:
        extra = fields(event="description_left_out")
        log.warning("a login is recorded without the result of PRESENCE_DESCRIBE: %s", error, extra=extra)
        return details
    return details | extra


def _names(user: Any) -> dict[str, Any]:
    full_name, user_name = user.get_full_name() if hasattr(user, "get_full_name") else "", user.get_username()
    return {"name": full_name.strip() or user_name, "aliases": [user_name, getattr(user, "email", None)]}


def describe_person(request: Any, user: Any) -> dict[str, Any]:
    """Name and aliases that a login records. ``request``: None if there is none, as in a command. They are not known
    then if PRESENCE_DESCRIBE names a function, because it may decide by the request: an empty dict."""
    app, details = config(), _names(user)
    if app.describe is None:
        return details
    if request is None:
        return {}
    extra = app.describe(request, user)
    return details | {field: extra[field] for field in details if field in extra}


def _timeouts(request: Any) -> dict[str, int]:
    """The timeouts of a session with an expiry of its own (``set_expiry``), unless PRESENCE_SETTINGS has timeouts."""
    app = config()
    if not request.session.get("_session_expiry") or app.has_timeouts:
        return {}
    life = min(max(1, request.session.get_expiry_age()), TEN_YEARS)
    return {"idle_timeout": life, "absolute_timeout": max(life, app.presence.settings.absolute_timeout)}


def fit_name(name: str | None) -> str | None:
    """The name without control characters, cut to what we store. Django allows 150 characters, which may be 600 bytes,
    for each of first and last name."""
    clean = "".join(" " if unicodedata.category(char) in ("Cc", "Cs") else char for char in name or "").strip()
    raw = clean.encode()
    if len(raw) > MAX_NAME:
        clean = f"{raw[: MAX_NAME - 3].decode(errors='ignore')}{CUT_MARK}"
    return clean or None


def new_id(request: Any) -> str:
    """The id for a new session: the hash of the Django session key. Creates the key if there is none yet."""
    if not request.session.session_key:
        request.session.save()
    return hashed_id(request.session.session_key)
