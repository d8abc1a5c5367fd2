"""Django says that somebody logged in, logged out, or has a new password; presence is told."""

from __future__ import annotations

import logging
import unicodedata
from contextvars import ContextVar
from typing import Any, Final

from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied
from django.db import transaction

from presence_core.errors import InvalidArgument, LoginRefused, PresenceError, Unavailable
from presence_core.operations.login import check_row
from presence_core.settings import CUT_MARK
from presence_core.web.django.apps import config
from presence_core.web.rules import hashed_id
from presence_core.web.wsgi import asked_of

ID: Final = "_presence_id"
"""In the Django session's data: the id of our session."""

PENDING: Final = "_presence_pending"
"""… and that it could not be begun at login, because Redis was away: the next request begins it."""

current: ContextVar[tuple[str, str] | None] = ContextVar("presence_current", default=None)
"""(uid, session id) of the request that is being answered here."""

log = logging.getLogger("presence_core")


def describe(request: Any, user: Any) -> dict[str, Any]:
    """What is recorded of a login: login's arguments. Nothing that users may call themselves keeps them out."""
    here = config()
    name = user.get_full_name() if hasattr(user, "get_full_name") else ""
    aliases = [_fitting(one) for one in (user.get_username(), getattr(user, "email", None))]
    found: dict[str, Any] = {"name": _fitting(name) or aliases[0], "aliases": [one for one in aliases if one]}
    if here.describe is None:
        return found
    more = dict(here.describe(request, user))
    try:
        check_row(here.presence.settings, {"uid": "any", **found, **more}, "")
    except InvalidArgument as error:
        log.warning("a login is recorded without what PRESENCE_DESCRIBE says of it: %s", error)
        return found
    return found | more


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
    before = current.get()
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


def on_user_saved(sender: Any, instance: Any, created: bool, **_: Any) -> None:
    """A new password ends the user's other sessions, as Django itself does by its session hash. The one that changed it
    stays: ``update_session_auth_hash`` gives it a new key."""
    # Set by set_password until save has returned; a hash that is only renewed at login leaves it None.
    if created or getattr(instance, "_password", None) is None or not config().kick_others:
        return
    uid, here = str(instance.pk), current.get()
    keep = [here[1]] if here is not None and here[0] == uid else []

    def kick() -> None:
        try:
            config().presence.kick(
                uid, by=uid, reason="password changed", message="The password was changed. Please sign in again.",
                keep=keep,
            )  # fmt: skip
        except PresenceError as error:
            log.warning("other sessions were not ended after a new password: %s", error)

    transaction.on_commit(kick)
