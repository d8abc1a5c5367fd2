"""Sign-ins of staff, kept as sessions in their own namespace, and their roles, from staff records.

A sign-in with a password lasts as long as that password: when anything or anyone changes or removes the line in
the password file, the sign-in is refused.

Answers are cached for a second, so that thirty open pages do not ask thirty times and a removed staff member still
loses access within five. While Redis is unavailable, recent answers stay valid for a few minutes.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Any, Final, TypeVar, cast

import streamlit as st

from presence_core import AuditFact, LoginRefused, Presence, PresenceError, Session, Validation
from presence_core.files.password_file import PasswordFile, StoredPassword
from presence_core.text.addresses import parse_address
from presence_dashboard import texts
from presence_dashboard.data.store import open_store
from presence_dashboard.format import literal
from presence_dashboard.gate_settings import Config, staff_environ
from presence_dashboard.roles import Denied, Role, SignedOut

T = TypeVar("T")

COOKIE: Final = "presence_staff"

PASSWORD: Final = "password"
"""Attribute of a sign-in: the version of the password with which it began."""

KEEP: Final = 1.0
"""Seconds for which pages use a cached answer. Actions always ask Redis."""

GRACE: Final = 300.0
"""The same while Redis is unavailable."""

_TOUCH: Final = 10.0  # seconds between two writes of the last activity
_RETRY_AFTER: Final = 5.0  # seconds without a request after Redis did not answer; each would wait for it
_CACHE_SIZE: Final = 2_000

_log = logging.getLogger(__name__)


class NoRole(SignedOut):
    """They are signed in, but their staff record gives them no role."""


@dataclass(frozen=True, slots=True)
class SignedInMember:
    """A staff member who is signed in and has a role."""

    name: str
    role: Role
    ends: datetime | None = field(default=None, compare=False)  #: when the sign-in ends without further activity
    began: datetime | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class _CachedAnswer:
    value: Any
    at: float
    touched: float


class StaffSessions:
    """Sign-ins and roles of staff, one object for the process. Thread-safe.

    presence: of the site, with the staff records. connect: opens the Presence that keeps the sign-ins. passwords: the
    password file; None where staff sign in otherwise.
    """

    def __init__(
        self,
        config: Config,
        presence: Callable[[], Presence],
        connect: Callable[[], Presence],
        passwords: PasswordFile | None = None,
    ) -> None:
        self.config = config
        self.passwords = passwords
        self._presence = presence
        self._connect = connect
        self._staff: Presence | None = None
        self._lock = threading.Lock()
        self._cache: OrderedDict[tuple[str, str], _CachedAnswer] = OrderedDict()
        self._replaced: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._unavailable_at = -_RETRY_AFTER

    @property
    def sessions(self) -> Presence:
        with self._lock:
            if self._staff is None:
                self._staff = self._connect()
            return self._staff

    def close(self) -> None:
        with self._lock:
            if self._staff is not None:
                self._staff.close()
                self._staff = None

    # -- Check a sign-in ----------------------------------------------------------------------------------------------

    def by_token(self, token: str | None, *, touch: bool = False, fresh: bool = False) -> SignedInMember:
        """The staff member with this cookie. Raises SignedOut, and PresenceError if Redis does not answer."""
        if not token:
            raise SignedOut(texts.NOT_SIGNED_IN)
        key = _key(token)
        if key in self._replaced:
            raise SignedOut(texts.PASSWORD_AGAIN_ELSEWHERE)
        return self._member(key, lambda touch: self.sessions.validate(token, touch=touch), touch, fresh)

    def is_fresh(self, token: str, max_age: int) -> bool:
        """Whether the member with this cookie authenticated in the last ``max_age`` seconds, by the clock of Redis."""
        return bool(self.sessions.validate(token, touch=False, max_age=max_age))

    def by_id(
        self, name: str, session_id: str, begin: Callable[[], None], *, touch: bool = False, fresh: bool = False
    ) -> SignedInMember:
        """The same for an OIDC sign-in, which Streamlit's cookie proves; ``begin`` starts its session if it is new."""

        def validate(touch: bool) -> Validation:
            found = self.sessions.validate_session(name, session_id, touch=touch)
            if not found and found.ended is None:
                begin()
                found = self.sessions.validate_session(name, session_id, touch=touch)
            return found

        return self._member(("session", f"{name}:{session_id}"), validate, touch, fresh)

    def role(self, name: str, *, fresh: bool = False) -> Role | None:
        def read() -> Role | None:
            member = self._presence().staff_member(name)
            return member.role if member else None

        return self._cached(("role", name), read, fresh, False)

    def _member(
        self, key: tuple[str, str], validate: Callable[[bool], Validation], touch: bool, fresh: bool
    ) -> SignedInMember:
        known = self._cache.get(key)
        is_due = touch and (fresh or known is None or time.monotonic() - known.touched > _TOUCH)
        session, refusal = self._cached(key, lambda: self._session_or_refusal(validate(touch)), fresh, is_due)
        if session is None:
            raise SignedOut(refusal)
        name = session.uid
        role = self.role(name, fresh=fresh)
        if role is None:
            raise NoRole(texts.no_role(name))
        if refusal:
            raise SignedOut(refusal)
        return SignedInMember(name, role, session.expires_at, session.login_at)

    def _session_or_refusal(self, found: Validation) -> tuple[Session | None, str]:
        """The live session, and why it is refused; an empty text if it is not."""
        session, ended = found.session, found.ended
        if session is not None:
            return session, "" if self._has_its_password(session) else texts.PASSWORD_CHANGED
        if ended is None:
            return None, texts.NOT_SIGNED_IN
        if ended.reason == "kicked":
            return None, texts.signed_out_by_staff(ended.message)
        if ended.cause == "idle":
            return None, texts.idle(self.config.idle // 60)
        return None, texts.SESSION_ENDED

    def _has_its_password(self, session: Session) -> bool:
        """Whether the password with which the sign-in began is still in the file."""
        if self.passwords is None:
            return True
        stored = self.passwords.find(session.uid)
        return stored is not None and session.attributes.get(PASSWORD) == stored.version

    def _cached(self, key: tuple[str, str], read: Callable[[], T], fresh: bool, is_due: bool) -> T:
        """A cached answer, or one from Redis. While Redis is unavailable, a cached answer of up to GRACE seconds.

        fresh: ask Redis, or raise. is_due: ask Redis, or use the cached answer if it is unavailable.
        """
        now, known = time.monotonic(), self._cache.get(key)
        if known is not None and not fresh and not is_due and now - known.at < KEEP:
            return cast(T, known.value)
        last = known if not fresh and known is not None and now - known.at < GRACE else None
        if last is not None and now - self._unavailable_at < _RETRY_AFTER:
            return cast(T, last.value)
        try:
            value = read()
        except PresenceError:
            self._unavailable_at = time.monotonic()
            if last is None:
                raise
            return cast(T, last.value)
        touched = now if is_due else known.touched if known is not None else -_TOUCH
        with self._lock:
            self._cache[key] = _CachedAnswer(value, now, touched)
            self._cache.move_to_end(key)
            if len(self._cache) > _CACHE_SIZE:
                self._cache.popitem(last=False)
        return value

    # -- Sign in and out ----------------------------------------------------------------------------------------------

    def seed_role(self, name: str, groups: list[str], how: str) -> Role:
        """The role of a staff member whom a proxy or an OIDC provider names. Their groups give the first role.

        Without a role, the attempt is audited and Denied raised.
        """
        role = self.role(name, fresh=True)
        first = None if role else self.config.seed(name, groups)
        if first:
            role = self._presence().seed_staff(name, first, by=f"sign-in by {how}").role
            self._cache.pop(("role", name), None)
        if role is None:
            self.log_denial(name, "sign-in", "has no role")
            raise Denied(texts.no_role(name))
        return role

    def sign_in_as(
        self,
        name: str,
        ip: str | None,
        agent: str | None,
        *,
        session_id: str | None = None,
        idp: Mapping[str, str] | None = None,
        password: StoredPassword | None = None,
    ) -> str:
        """Start a session and return its token. session_id, idp: of an OIDC sign-in, which has an id already, and by
        which the provider can end it. password: the one that was checked."""
        staff = self.sessions
        attributes = None if password is None else {PASSWORD: password.version}
        with contextlib.suppress(PresenceError):
            staff.sweep(limit=100)  # no worker sweeps this namespace
        try:
            login = staff.login(
                name,
                app="dashboard",
                ip=_address(ip),
                user_agent=agent,
                session_id=session_id,
                idp=idp,
                attributes=attributes,
            )
        except LoginRefused as refused:
            raise SignedOut(texts.SESSION_ENDED) from refused
        _log.info("%s signed in", literal(name))
        return login.token

    def authenticated_again(self, token: str, began: datetime) -> str:
        """Replace the token of a member whose password was checked again. The old one opens nothing from then on.

        began: when the form was sent. Raises SignedOut if the session has ended, and PresenceError.
        """
        try:
            login = self.sessions.reauthenticated(token, began=began)
        except LoginRefused as refused:
            raise SignedOut(texts.SESSION_ENDED) from refused
        with self._lock:
            self._cache.pop(_key(token), None)
            self._replaced[_key(token)] = None  # other tabs still have it, and say what happened
            if len(self._replaced) > _CACHE_SIZE:
                self._replaced.popitem(last=False)
        _log.info("%s authenticated again", literal(login.session.uid))
        return login.token

    def end_sign_in(self, token: str) -> None:
        """End the session of this token, if it is valid."""
        found = self.sessions.validate(token, touch=False).session
        if found is not None:
            self.sessions.logout(found.uid, found.session_id)
        self._cache.pop(_key(token), None)

    def end_sign_in_by_id(self, name: str, session_id: str) -> None:
        self.sessions.logout(name, session_id)
        self._cache.pop(("session", f"{name}:{session_id}"), None)

    def log_chosen_password(self, name: str) -> None:
        """Audit that a staff member chose their password. If that fails, the password stays."""
        try:
            self._presence().audit_note(by=name, what="staff", facts=[AuditFact("password_chosen", {"name": name})])
        except PresenceError as error:
            _log.warning("%s chose a password, but could not audit it: %s", literal(name), error)

    def log_denial(self, by: str, action: str, reason: str, uid: str | None = None) -> None:
        """Audit a denied attempt. If that fails, the attempt stays denied."""
        try:
            self._presence().denied(by=by, what=action, uid=uid, reason=reason)
        except PresenceError as error:
            _log.warning(
                "Denied %s to %s (%s), but could not audit it: %s", action, literal(by), literal(reason), error
            )


def _key(token: str) -> tuple[str, str]:
    return "session", sha256(token.encode("utf-8", "replace")).hexdigest()


def _address(ip: str | None) -> str | None:
    """The address if it is one; names of test clients and of Unix sockets are not."""
    found = parse_address(ip) if ip else None
    return str(found) if found else None


@st.cache_resource(show_spinner=False, on_release=StaffSessions.close)
def open_staff_sessions() -> StaffSessions:
    """The staff sessions of this process. Raises InvalidArgument for a wrong setting."""
    config = Config.from_env(os.environ)
    environ = staff_environ(os.environ, config)
    passwords = PasswordFile.from_env(os.environ) if config.mode == "password" else None

    def connect() -> Presence:
        _ = open_store().presence  # raises if the site's sessions are not on this Redis
        return Presence.from_env(environ)

    return StaffSessions(config, lambda: open_store().presence, connect, passwords)
