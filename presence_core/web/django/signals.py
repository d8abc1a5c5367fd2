"""Django's signals: a login, a logout, a new password, an account that is deactivated or deleted."""

from __future__ import annotations

import logging
import sys
import unicodedata
from contextvars import ContextVar
from pathlib import PurePath
from typing import Any, Final

from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import FieldError, PermissionDenied
from django.db import transaction

from presence_core.errors import InvalidArgument, LoginRefused, PresenceError, Unavailable
from presence_core.operations.login import check_row
from presence_core.settings import CUT_MARK, TEN_YEARS
from presence_core.web.django.apps import config
from presence_core.web.rules import hashed_id
from presence_core.web.wsgi import asked_of

ID: Final = "_presence_id"
"""In the Django session's data: the id of our session."""

PENDING: Final = "_presence_pending"
"""… and that it could not be begun at login, because Redis was away: the next request begins it."""

current: ContextVar[tuple[str, str] | None] = ContextVar("presence_current", default=None)
"""(uid, session id) of the request that is being answered here."""

answering: ContextVar[Any] = ContextVar("presence_answering", default=None)
"""The request that is being answered here, or None."""

log = logging.getLogger("presence_core")


def describe(request: Any, user: Any) -> dict[str, Any]:
    """What is recorded of a login: login's arguments. Nothing that users may call themselves keeps them out."""
    here = config()
    name = user.get_full_name() if hasattr(user, "get_full_name") else ""
    aliases = [_fitting(one) for one in (user.get_username(), getattr(user, "email", None))]
    found: dict[str, Any] = {"name": _fitting(name) or aliases[0], "aliases": [one for one in aliases if one]}
    found |= _timeouts(request)
    if here.describe is None:
        return found
    more = dict(here.describe(request, user))
    try:
        check_row(here.presence.settings, {"uid": "any", **found, **more}, "")
    except InvalidArgument as error:
        log.warning("a login is recorded without what PRESENCE_DESCRIBE says of it: %s", error)
        return found
    return found | more


def _timeouts(request: Any) -> dict[str, int]:
    """Of a session that the site gave an expiry of its own (``set_expiry``), unless PRESENCE_SETTINGS name timeouts."""
    here = config()
    if not request.session.get("_session_expiry") or here.has_timeouts:
        return {}
    life = min(max(1, request.session.get_expiry_age()), TEN_YEARS)
    return {"idle_timeout": life, "absolute_timeout": max(life, here.presence.settings.absolute_timeout)}


def _fitting(name: str | None) -> str | None:
    """Django takes longer ones: 150 characters may be 600 bytes, and first and last name are two."""
    clean = "".join(" " if unicodedata.category(char) in ("Cc", "Cs") else char for char in name or "").strip()
    raw = clean.encode()
    return (clean if len(raw) <= 256 else f"{raw[:253].decode(errors='ignore')}{CUT_MARK}") or None


def new_id(request: Any) -> str:
    """The id of a session that begins: the hash of the Django key, which is made where there is none yet."""
    if not request.session.session_key:
        request.session.save()
    return hashed_id(request.session.session_key)


def on_login(sender: Any, request: Any, user: Any, **_: Any) -> None:
    """user_logged_in: a session begins. Staff's block refuses it with PermissionDenied (403)."""
    if request is None or not hasattr(request, "session"):
        return
    here = config()
    asked = asked_of(request.META)
    details = {
        "ip": here.gate.address(asked), "user_agent": asked.user_agent, **describe(request, user),
    }  # fmt: skip
    session_id = request.session.get(ID) or new_id(request)
    is_inside = answering.get() is not None  # set in front of the middleware it would outlive the request in its thread
    before = current.get() if is_inside else None
    try:
        if before not in (None, (str(user.pk), session_id)):
            here.presence.logout(*before)  # one browser, one session: another user's was left open in it
        try:
            here.presence.login(str(user.pk), session_id=session_id, **details)
        except LoginRefused as refused:
            if refused.code != "ended":
                raise
            request.session.cycle_key()  # Django went on with a key whose session was ended
            session_id = new_id(request)
            here.presence.login(str(user.pk), session_id=session_id, **details)
    except LoginRefused as refused:
        if here.rules.mode != "observe":
            _out(request)
            raise PermissionDenied(refused.sentence) from None
    except PresenceError as error:
        if here.rules.mode == "enforce" and here.rules.on_unavailable != "open" and isinstance(error, Unavailable):
            _out(request)
            raise  # the middleware makes a 503 of it
        log.warning("a login was not recorded: %s", error)
        request.session[PENDING] = True
    request.session[ID] = session_id
    if is_inside:
        current.set((str(user.pk), session_id))


def _out(request: Any) -> None:
    request.session.flush()
    request.user = AnonymousUser()


def on_logout(sender: Any, request: Any, user: Any, **_: Any) -> None:
    """user_logged_out: the session ends. Never an error: Django's own session is gone in any case."""
    session_id = request.session.get(ID) if hasattr(request, "session") else None
    if user is None or session_id is None:
        return
    try:
        config().presence.logout(str(user.pk), session_id)
    except PresenceError as error:
        log.warning("a logout was not recorded: %s", error)


def on_user_saving(sender: Any, instance: Any, raw: bool, using: str, update_fields: Any = None, **_: Any) -> None:
    """pre_save: whether this save deactivates the account. Cost: a query, where the user is not active."""
    instance._presence_deactivated = False
    if raw or instance.pk is None or getattr(instance, "is_active", True):
        return
    if update_fields is None or "is_active" in update_fields:
        try:
            was = sender._base_manager.using(using).filter(pk=instance.pk, is_active=True).exists()
        except FieldError:  # a model that computes it
            was = True
        instance._presence_deactivated = was


def on_user_saved(sender: Any, instance: Any, created: bool, using: str, **_: Any) -> None:
    """post_save: a new password ends the user's other sessions, as Django itself does by its session hash. The one that
    changed it stays: ``update_session_auth_hash`` gives it a new key. An account that is deactivated loses them all."""
    if getattr(instance, "_presence_deactivated", False):
        _end_all(instance, using, "account deactivated", "This account is not active any more.")
        return
    # Set by set_password until save has returned; a hash that is only renewed at login leaves it None.
    if created or getattr(instance, "_password", None) is None or not config().kick_others:
        return
    here = current.get()
    keep = [here[1]] if here is not None and here[0] == str(instance.pk) else []
    _end_all(instance, using, "password changed", "The password was changed. Please sign in again.", keep)


def on_user_deleted(sender: Any, instance: Any, using: str, **_: Any) -> None:
    """post_delete, also of ``QuerySet.delete``."""
    _end_all(instance, using, "account deleted", "This account was deleted.")


def _end_all(user: Any, using: str, reason: str, message: str, keep: list[str] | None = None) -> None:
    """At commit; a transaction that is rolled back ends nothing."""
    uid, by = str(user.pk), actor()

    def kick() -> None:
        try:
            config().presence.kick(uid, by=by, reason=reason, message=message, keep=keep or [])
        except PresenceError as error:
            log.warning("sessions were not ended (%s): %s", reason, error)

    transaction.on_commit(kick, using=using)


def actor() -> str:
    """Who acts here, for the audit: the user of the request that is being answered, else the program's name."""
    here, request = current.get(), answering.get()
    if here is not None:
        return here[0]
    if request is not None:
        user = getattr(request, "user", None)  # not by a Django session: a token of the REST framework, say
        return str(user.pk) if user is not None and user.is_authenticated else "anonymous visitor"
    path = PurePath(sys.argv[0] if sys.argv else "")
    name = path.parent.name if path.name == "__main__.py" else path.name
    if name in ("manage.py", "django", "django-admin") and len(sys.argv) > 1:
        name = f"manage.py {sys.argv[1]}"
    return (_fitting(name) if name not in ("", "-c", "-m", "-") else None) or "Django"
