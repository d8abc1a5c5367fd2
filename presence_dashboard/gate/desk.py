"""Where staff sign in and out: their sessions, in a namespace of their own, and their roles, which only records give.

What was read is kept for a second, so that a demoted or removed member of staff is refused within five, and thirty
open pages do not ask thirty times. While Redis is away, those who were in just before stay in.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, TypeVar, cast

import streamlit as st

from presence_core import LoginRefused, Presence, PresenceError, Validation
from presence_core.web.proxies import parse_address
from presence_dashboard import texts
from presence_dashboard.format import literal
from presence_dashboard.gate.config import Config, staff_environ
from presence_dashboard.roles import Denied, Role, SignedOut
from presence_dashboard.store import open_store

T = TypeVar("T")

COOKIE: Final = "presence_staff"

KEEP: Final = 1.0
"""Seconds for which an answer of Redis holds for pages; an action asks anew each time."""

GRACE: Final = 300.0
"""Seconds for which it holds while Redis is away."""

_TOUCH: Final = 10.0  # how exactly it is noted when somebody last did something
_TIRED: Final = 1.0  # so long nobody asks a Redis that has just not answered
_MOST: Final = 2_000

_log = logging.getLogger(__name__)


class NoRole(SignedOut):
    """They are signed in, and the record gives them no role, or no longer."""


@dataclass(frozen=True, slots=True)
class Member:
    """Somebody who is signed in and has a role."""

    name: str
    role: Role


@dataclass(frozen=True, slots=True)
class _Known:
    value: Any
    at: float
    touched: float


class Desk:
    """One for the process. ``presence`` is the site's; ``connect`` opens the one of staff. Safe between threads."""

    def __init__(self, config: Config, presence: Callable[[], Presence], connect: Callable[[], Presence]) -> None:
        self.config = config
        self._presence = presence
        self._connect = connect
        self._staff: Presence | None = None
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[str, str], _Known] = OrderedDict()
        self._away = -_TIRED

    @property
    def sessions(self) -> Presence:
        """The sign-ins of staff."""
        with self._lock:
            if self._staff is None:
                self._staff = self._connect()
            return self._staff

    def close(self) -> None:
        with self._lock:
            if self._staff is not None:
                self._staff.close()
                self._staff = None

    # -- who is it --------------------------------------------------------------------------------------------------

    def by_token(self, token: str | None, *, touch: bool = False, anew: bool = False) -> Member:
        """Whose cookie this is. Raises SignedOut, and PresenceError where that cannot be found out."""
        if not token:
            raise SignedOut(texts.NOT_SIGNED_IN)
        return self._member(_key(token), lambda touch: self.sessions.validate(token, touch=touch), touch, anew)

    def by_id(
        self, name: str, session_id: str, first: Callable[[], None], *, touch: bool = False, anew: bool = False
    ) -> Member:
        """The same for a sign-in that somebody else's cookie proves; ``first`` makes it known when it is new."""

        def ask(touch: bool) -> Validation:
            found = self.sessions.validate_session(name, session_id, touch=touch)
            if not found and found.ended is None:
                first()
                found = self.sessions.validate_session(name, session_id, touch=touch)
            return found

        return self._member(("session", f"{name}:{session_id}"), ask, touch, anew)

    def role(self, name: str, *, anew: bool = False) -> Role | None:
        """What the record says, and nothing else."""

        def ask() -> Role | None:
            member = self._presence().staff_member(name)
            return cast(Role, member.role) if member and member.role else None

        return self._ask(("role", name), ask, anew, False)

    def _member(self, key: tuple[str, str], ask: Callable[[bool], Validation], touch: bool, anew: bool) -> Member:
        known = self._known.get(key)
        is_due = touch and (anew or known is None or time.monotonic() - known.touched > _TOUCH)
        name, refusal = self._ask(key, lambda: _name_or_refusal(ask(touch), self.config), anew, is_due)
        if name is None:
            raise SignedOut(refusal)
        role = self.role(name, anew=anew)
        if role is None:
            raise NoRole(texts.no_role(name))
        return Member(name, role)

    def _ask(self, key: tuple[str, str], ask: Callable[[], T], anew: bool, is_due: bool) -> T:
        """From Redis, or what it said a moment ago; while it is away, what it said a few minutes ago.

        anew: from Redis or not at all. is_due: from Redis, where it answers.
        """
        now, known = time.monotonic(), self._known.get(key)
        if known is not None and not anew and not is_due and now - known.at < KEEP:
            return cast(T, known.value)
        last = known if not anew and known is not None and now - known.at < GRACE else None
        if last is not None and now - self._away < _TIRED:
            return cast(T, last.value)
        try:
            value = ask()
        except PresenceError:
            self._away = time.monotonic()
            if last is None:
                raise
            return cast(T, last.value)
        touched = now if is_due else known.touched if known is not None else -_TOUCH
        with self._lock:
            self._known[key] = _Known(value, now, touched)
            self._known.move_to_end(key)
            if len(self._known) > _MOST:
                self._known.popitem(last=False)
        return value

    # -- in and out -------------------------------------------------------------------------------------------------

    def seeded(self, name: str, groups: list[str], how: str) -> Role:
        """The role of somebody for whom a proxy or an OIDC provider vouches; at first it comes from what they say.

        Raises Denied, and writes down that they tried.
        """
        role = self.role(name, anew=True)
        first = None if role else self.config.seed(name, groups)
        if first:
            role = cast(Role | None, self._presence().seed_staff(name, first, by=f"sign-in by {how}").role)
            self._known.pop(("role", name), None)
        if role is None:
            self.deny(name, "sign-in", "has no role")
            raise Denied(texts.no_role(name))
        return role

    def admit(self, name: str, ip: str | None, agent: str | None, *, session_id: str | None = None) -> str:
        """Begin a session, always a new one but for the session id of an OIDC sign-in; answers the token."""
        staff = self.sessions
        with contextlib.suppress(PresenceError):
            staff.sweep(limit=100)  # no worker looks after this namespace
        try:
            login = staff.login(name, app="dashboard", ip=_address(ip), user_agent=agent, session_id=session_id)
        except LoginRefused as refused:
            raise SignedOut(texts.SESSION_OVER) from refused
        _log.info("%s signed in", literal(name))
        return login.token

    def leave(self, token: str) -> None:
        """End the session of this cookie, if it is one."""
        found = self.sessions.validate(token, touch=False).session
        if found is not None:
            self.sessions.logout(found.uid, found.session_id)
        self._known.pop(_key(token), None)

    def leave_id(self, name: str, session_id: str) -> None:
        """End the session that a sign-in of somebody else's stands for."""
        self.sessions.logout(name, session_id)
        self._known.pop(("session", f"{name}:{session_id}"), None)

    def deny(self, by: str, what: str, why: str, uid: str | None = None) -> None:
        """Write down what was tried and refused. That it cannot be written lets nobody in."""
        try:
            self._presence().denied(by=by, what=what, uid=uid, reason=why)
        except PresenceError as error:
            told = (literal(by), what, literal(why), error)
            _log.warning("%s was refused %s (%s), and that could not be written down: %s", *told)


def _key(token: str) -> tuple[str, str]:
    return "session", sha256(token.encode("utf-8", "replace")).hexdigest()


def _name_or_refusal(found: Validation, config: Config) -> tuple[str | None, str]:
    if found.session is not None:
        return found.session.uid, ""
    ended = found.ended
    if ended is None:
        return None, texts.NOT_SIGNED_IN
    if ended.reason == "kicked":
        return None, texts.signed_out_by_staff(ended.message)
    if ended.cause == "idle":
        return None, texts.idle(config.idle // 60)
    return None, texts.SESSION_OVER


def _address(ip: str | None) -> str | None:
    """What may be written down as one: a test client's or a socket's name may not."""
    found = parse_address(ip) if ip else None
    return str(found) if found else None


@st.cache_resource(show_spinner=False, on_release=Desk.close)
def open_desk() -> Desk:
    """That of this process. Raises InvalidArgument for settings that make no sense."""
    config = Config.from_env(os.environ)
    environ = staff_environ(os.environ, config)
    return Desk(config, lambda: open_store().presence, lambda: Presence.from_env(environ))
