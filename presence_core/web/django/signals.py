"""Handlers of Django's signals: login, logout, a new password or name, an account that is deactivated or deleted."""

from __future__ import annotations

import logging
from typing import Any, Final

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import FieldError, PermissionDenied
from django.db import DatabaseError, transaction

from presence_core.errors import LoginRefused, PresenceError, Unavailable
from presence_core.logs import fields
from presence_core.schema.failures import SiteFailure
from presence_core.web.cookies import device_id_of, new_device_id
from presence_core.web.django.config import config
from presence_core.web.django.current_request import CurrentSession, actor, current_request, current_session
from presence_core.web.django.login_details import describe, describe_person, new_id

ID: Final = "_presence_id"
"""Key in the Django session's data: the id of our session."""

PENDING: Final = "_presence_pending"
"""Key in the Django session's data: our session could not begin at login because Redis was away. The next request
begins it."""

NAMELESS: Final = frozenset(("last_login", "password", "is_active", "is_staff", "is_superuser"))
"""Fields of which no name is made: Django saves the first at each login."""

log = logging.getLogger(__name__)


class LoginDenied(PermissionDenied):  # type: ignore[misc]
    """A block or a limit refuses the login. The text is for the user."""

    def __init__(self, refused: LoginRefused) -> None:
        super().__init__(refused.sentence)
        self.refused = refused


def on_login(sender: Any, request: Any, user: Any, **_: Any) -> None:
    """user_logged_in: begin a session. If staff block the user, raises LoginDenied (403)."""
    if request is None or not hasattr(request, "session"):
        return
    rules = config().rules
    is_inside = current_request.get() is not None  # set outside of the middleware, it would outlive the request
    uid, session_id = str(user.pk), request.session.get(ID) or new_id(request)
    try:
        session_id = _begin(request, user, session_id, current_session.get() if is_inside else None)
    except LoginRefused as refused:
        if rules.mode != "observe":
            _sign_out(request)
            raise LoginDenied(refused) from None
    except PresenceError as error:
        if rules.mode == "enforce" and rules.on_unavailable != "open" and isinstance(error, Unavailable):
            _sign_out(request)
            raise  # the middleware answers 503
        log.warning("a login was not recorded: %s", error, extra=fields(event="login_not_recorded"))
        request.session[PENDING] = True
    request.session[ID] = session_id
    if is_inside:
        current_session.set(CurrentSession(uid, session_id))


def _begin(request: Any, user: Any, session_id: str, previous: CurrentSession | None) -> str:
    """Begin the session, and return its id: another one if the given id has ended."""
    app, uid = config(), str(user.pk)
    data = app.checker.read_environ(request.META)
    details = {"ip": app.checker.address(data), "user_agent": data.user_agent, **describe(request, user)}
    if app.device_cookie and request.is_secure():  # a browser keeps the cookie over HTTPS only
        details.setdefault("device_id", device_id_of(data.cookie) or new_device_id())
    if previous is not None and previous != (uid, session_id):
        app.presence.logout(*previous)  # a browser has one session: another user's was still open in it
    try:
        app.presence.login(uid, session_id=session_id, **details)
        if previous == (uid, session_id):  # the user of this session has signed in again
            request.session.cycle_key()  # Django keeps the key, so a copy of the cookie would get the fresh session
            how = {name: details[name] for name in ("methods", "mfa") if name in details}
            app.presence.reauthenticated_session(uid, session_id, **how)
    except LoginRefused as refused:
        if refused.code != "ended":
            raise
        request.session.cycle_key()  # Django kept a key whose session had ended
        session_id = new_id(request)
        app.presence.login(uid, session_id=session_id, **details)
    request.presence_device_id = details.get("device_id")  # the middleware sets the cookie
    return session_id


def _sign_out(request: Any) -> None:
    request.session.flush()
    request.user = AnonymousUser()


def on_login_failed(sender: Any, credentials: dict[str, Any], request: Any = None, **_: Any) -> None:
    """user_login_failed: record it. Raises nothing. Django has hidden the password in ``credentials``; only the name of
    the account is read. Cost: a query for the account."""
    typed = credentials.get("username", credentials.get(get_user_model().USERNAME_FIELD))
    if not isinstance(typed, str) or not typed.strip():
        return
    user = _account(typed)
    why: SiteFailure = "unknown_name" if user is None else "wrong_password" if user.is_active else "locked"
    details: dict[str, Any] = {}
    app = config()
    if request is not None:
        data = app.checker.read_environ(request.META)
        details = {"ip": app.checker.address(data), "user_agent": data.user_agent}
    try:
        app.presence.login_failed(typed if user is None else str(user.pk), why=why, is_uid=user is not None, **details)
    except PresenceError as error:
        log.warning("a failed sign-in was not recorded: %s", error, extra=fields(event="failure_not_recorded"))


def _account(typed: str) -> Any:
    """The account with this name, or None. A name that the database does not take, such as one with half of a
    character, belongs to none: another backend may have refused it before any query."""
    model = get_user_model()
    try:
        return model._default_manager.filter(**{model.USERNAME_FIELD: typed}).first()
    except (ValueError, TypeError, DatabaseError) as error:
        log.warning("the account of a failed sign-in was not looked up: %s", type(error).__name__,
                    extra=fields(event="failure_without_account"))  # fmt: skip
        return None


def on_logout(sender: Any, request: Any, user: Any, **_: Any) -> None:
    """user_logged_out: end the session. Raises nothing: Django's own session has ended in any case."""
    session_id = request.session.get(ID) if hasattr(request, "session") else None
    if user is None or session_id is None:
        return
    try:
        config().presence.logout(str(user.pk), session_id)
    except PresenceError as error:
        log.warning("a logout was not recorded: %s", error, extra=fields(event="logout_not_recorded"))


def on_user_saving(sender: Any, instance: Any, raw: bool, using: str, update_fields: Any = None, **_: Any) -> None:
    """pre_save: note the name before this save, and whether it deactivates the account. Cost: a query for the name, and
    one if the user is not active."""
    instance._presence_deactivated, instance._presence_names = False, {}
    if raw or instance.pk is None:
        return
    if config().update_person and not instance._state.adding and not NAMELESS.issuperset(update_fields or ("name",)):
        instance._presence_names = _names_of(_stored(sender, instance, using))
    if getattr(instance, "is_active", True):
        return
    if update_fields is None or "is_active" in update_fields:
        try:
            was_active = sender._base_manager.using(using).filter(pk=instance.pk, is_active=True).exists()
        except FieldError:  # this model computes is_active
            was_active = True
        instance._presence_deactivated = was_active


def on_user_saved(sender: Any, instance: Any, created: bool, using: str, **_: Any) -> None:
    """post_save: a new name or email is that of the user's sessions. A deactivated account loses all sessions. A new
    password ends the user's other sessions.

    Django does the same with its session hash. The session that changed the password stays:
    ``update_session_auth_hash`` gives it a new key.
    """
    names = getattr(instance, "_presence_names", {})
    if names and _names_of(instance) != names:
        _update_person(sender, instance, using, names)
    if getattr(instance, "_presence_deactivated", False):
        _end_all(instance, using, "account deactivated", "This account is not active any more.")
        return
    # set_password sets _password until save has returned. A hash that is only renewed at login leaves it None.
    if created or getattr(instance, "_password", None) is None or not config().kick_others:
        return
    session = current_session.get()
    keep = [session.session_id] if session is not None and session.uid == str(instance.pk) else []
    _end_all(instance, using, "password changed", "The password was changed. Please sign in again.", keep)


def _stored(sender: Any, user: Any, using: str) -> Any:
    """The user as the database has it, or None."""
    return sender._base_manager.using(using).filter(pk=user.pk).first()


def _names_of(user: Any) -> dict[str, Any]:
    """The names that a login would record; none if they are not known. Raises nothing: a save goes on."""
    try:
        return {} if user is None else describe_person(current_request.get(), user)
    except Exception as error:  # of the site's own code
        log.warning("the name of a user could not be read: %r", error, extra=fields(event="person_not_updated"))
        return {}


def _update_person(sender: Any, user: Any, using: str, before: dict[str, Any]) -> None:
    """Change the user's sessions at commit, if what is stored is new: a save may leave out fields, or compute them."""
    uid, names = str(user.pk), _names_of(_stored(sender, user, using))
    if not names or names == before:
        return

    def update() -> None:
        try:
            config().presence.update_person(uid, **names)
        except PresenceError as error:
            log.warning("a new name was not recorded: %s", error, extra=fields(event="person_not_updated"))

    transaction.on_commit(update, using=using)


def on_user_deleted(sender: Any, instance: Any, using: str, **_: Any) -> None:
    """post_delete, which ``QuerySet.delete`` sends too: end all sessions."""
    _end_all(instance, using, "account deleted", "This account was deleted.")


def _end_all(user: Any, using: str, reason: str, message: str, keep: list[str] | None = None) -> None:
    """Kick the user at commit. A transaction that is rolled back ends no session."""
    uid = str(user.pk)
    by = actor(uid)

    def kick() -> None:
        try:
            config().presence.kick(uid, by=by, reason=reason, message=message, keep=keep or [])
        except PresenceError as error:
            log.warning("sessions were not ended (%s): %s", reason, error, extra=fields(event="kick_failed"))

    transaction.on_commit(kick, using=using)
