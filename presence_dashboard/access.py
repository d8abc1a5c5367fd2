"""The signed-in actor of a page, and the check of their rights.

Each action calls ``require``, which asks Redis every time: a button on an old page gives no right. Protected actions
call ``require_fresh``, which also asks for a fresh authentication. How staff sign in is
in ``gate``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from hashlib import sha256
from typing import Any, Final
from urllib.parse import quote

import streamlit as st

from presence_core import PresenceError
from presence_dashboard import texts
from presence_dashboard.data.store import open_store
from presence_dashboard.format import span
from presence_dashboard.gate.gate_mark import HEADER, is_marked
from presence_dashboard.gate.oidc.claims import (
    check_age,
    check_audience,
    provider_groups,
    provider_link,
    provider_name,
    provider_session,
)
from presence_dashboard.gate.oidc.redirects import AGAIN, is_by_other, name_digest
from presence_dashboard.gate.staff_sessions import COOKIE, NoRole, SignedInMember, StaffSessions, open_staff_sessions
from presence_dashboard.gate_settings import Config, Mode
from presence_dashboard.roles import Actor, AuthenticationTooOld, Denied, Right, SignedOut, SignInUnknown

LOCAL_OPERATOR: Final = "local operator"

_CLOCKS_DIFFER: Final = 300  # seconds


def current(*, touch: bool = True) -> Actor:
    """The actor of this page, at most two seconds old (a few minutes while Redis is unavailable). Raises SignedOut.

    touch: count this as activity. An automatic refresh of a page is no activity.
    """
    try:
        return _actor(touch=touch, fresh=False)
    except Denied as denied:
        raise SignedOut(str(denied)) from denied
    except PresenceError as error:
        raise SignInUnknown(texts.SIGN_IN_UNKNOWN) from error


def with_right(right: Right) -> Actor | None:
    """The actor of this page if they have the right; None also if no one is signed in. For parts of a page that refresh
    automatically."""
    try:
        actor = current(touch=False)
    except SignedOut:
        return None
    return actor if actor.may(right) else None


def may(right: Right) -> bool:
    """Whether the actor of this page has the right, as ``with_right``."""
    return with_right(right) is not None


def is_still(actor: Actor) -> bool:
    """Whether this is the actor of this page, with the same role. If not, a part that refreshes redraws the page."""
    try:
        return current(touch=False) == actor
    except SignedOut:
        return False  # main draws the reason instead of the page


def sees_names() -> bool:
    """``Actor.sees_names`` of the actor of this page; False if no one is signed in."""
    try:
        return current(touch=False).sees_names
    except SignedOut:
        return False


def require(right: Right, *, action: str, uid: str | None = None) -> Actor:
    """The actor, if they have the right now; read from Redis. Denials are audited with ``action`` and ``uid``.

    Raises SignedOut, Denied, and Unavailable if Redis does not answer.
    """
    try:
        actor = _actor(touch=True, fresh=True)
    except SignedOut as signed_out:
        name = _name_of_sign_in()
        if name is not None:
            _log_denial(name, action, "has no role" if isinstance(signed_out, NoRole) else "is signed out", uid)
        raise
    if not actor.may(right):
        _log_denial(actor.name, action, f"role {actor.role}", uid)
        raise Denied(texts.may_not(actor.role))
    return actor


def require_fresh(right: Right, *, action: str, uid: str | None = None) -> Actor:
    """``require`` for a protected action: the actor must also have authenticated a short time ago.

    If they did not, raises AuthenticationTooOld and audits that. Call it before anything is changed.
    """
    actor = require(right, action=action, uid=uid)
    too_old = _too_old()
    if too_old is not None:
        _log_denial(actor.name, action, "authentication is too old", uid)
        raise AuthenticationTooOld(too_old)
    return actor


def authentication_too_old() -> str | None:
    """Why the actor of this page must authenticate again before a protected action, as a sentence; None: they need not.

    For dialogs, so that they say it when they open. ``require_fresh`` decides.
    """
    try:
        return _too_old()
    except PresenceError:
        return None  # the action itself fails, and says why


def sign_in_again_path(then: str) -> str:
    """The path at which the actor of this page authenticates again, and from which they return to ``then``."""
    path = f"/sign-in-again?next={quote(then, safe='/')}"
    config = _config()
    return f"{path}&member={name_digest(provider_name(_claims() or {}, config))}" if config.mode == "oidc" else path


def stop_without_gate() -> None:
    """Stop the script of a page with one sentence, unless the gate let its connection in. Each page calls it first."""
    if not _has_gate():
        st.error(texts.NO_GATE)
        st.stop()


@dataclass(frozen=True, slots=True)
class SignInEnd:
    """When the sign-in of this page ends."""

    at: datetime  #: without further activity
    may_stay: bool  #: activity moves it; False: it has lasted as long as a sign-in may
    idle: int  #: seconds without activity until a sign-in ends


def sign_in_end() -> SignInEnd | None:
    """When the sign-in of this page ends; None without a sign-in, or where that is not known. No activity."""
    config = _config()
    if config.mode == "open":
        return None
    try:
        member = _member(config, touch=False, fresh=False)
    except (SignedOut, Denied, PresenceError):
        return None
    if member.ends is None or member.began is None:
        return None
    last = member.began + timedelta(seconds=config.absolute)
    return SignInEnd(member.ends, member.ends + timedelta(seconds=1) < last, config.idle)


def sign_in_id() -> str | None:
    """A name for the sign-in of this page, different after another sign-in; None without one. No secret."""
    config = _config()
    if config.mode == "open":
        return None
    if config.mode == "oidc":
        claims = _claims()
        return provider_session(claims) if claims is not None else None
    token = st.context.cookies.get(COOKIE)
    return sha256(token.encode("utf-8", "replace")).hexdigest()[:22] if token else None


def stay_signed_in() -> None:
    """Count a click as activity. The next run of the page shows the result, also of a failure."""
    with suppress(SignedOut, Denied, PresenceError):
        _actor(touch=True, fresh=True)


def request_lapse() -> int:
    """Seconds until a request for approval lapses."""
    return _config().lapse


def mode() -> Mode:
    return _config().mode


def sign_out() -> None:
    """Sign out of an OIDC sign-in, which Streamlit keeps. In the other modes the page /sign-out does it."""
    claims = _claims()
    if claims is not None:
        try:
            open_staff_sessions().end_sign_in_by_id(provider_name(claims, _config()), provider_session(claims))
        except (Denied, PresenceError):
            pass  # the cookie is deleted in any case
    st.logout()


def _has_gate() -> bool:
    return is_marked(st.context.headers.get_all(HEADER))


def _config() -> Config:
    return Config.from_env(os.environ)


def _actor(*, touch: bool, fresh: bool) -> Actor:
    if not _has_gate():
        raise Denied(texts.NO_GATE)
    config = _config()
    if config.mode == "open":
        return config.actor(LOCAL_OPERATOR, config.open_role)
    member = _member(config, touch=touch, fresh=fresh)
    return config.actor(member.name, member.role)


def _member(config: Config, *, touch: bool, fresh: bool) -> SignedInMember:
    staff = open_staff_sessions()
    if config.mode == "oidc":
        return _by_provider(staff, touch=touch, fresh=fresh)
    return staff.by_token(st.context.cookies.get(COOKIE), touch=touch, fresh=fresh)


def _too_old() -> str | None:
    config = _config()
    if config.max_age is None:
        return None
    if config.mode == "oidc":
        return auth_time_problem(_claims() or {}, config.max_age, time.time())
    is_fresh = open_staff_sessions().is_fresh(st.context.cookies.get(COOKIE, ""), config.max_age)
    return None if is_fresh else texts.password_too_old(span(config.max_age))


def _name_of_sign_in() -> str | None:
    """The name of the live or ended sign-in behind this page, for the audit; None if there never was one."""
    claims, config = _claims(), _config()
    if config.mode == "oidc" and claims is not None:
        return provider_name(claims, config)
    validation = open_staff_sessions().sessions.validate(st.context.cookies.get(COOKIE, ""), touch=False)
    record = validation.session or validation.ended
    return record.uid if record else None


def _log_denial(by: str, action: str, reason: str, uid: str | None) -> None:
    try:
        open_store().presence.denied(by=by, what=action, uid=uid, reason=reason)
    except PresenceError:
        pass  # the action is refused in any case


# -- OIDC: Streamlit checks the sign-in, the rest is as in the other modes ---------------------------------------------


def _claims() -> dict[str, Any] | None:
    """The claims of the provider, checked by Streamlit; None if no one is signed in."""
    claims: dict[str, Any] = dict(st.user.to_dict())
    return claims if claims.pop("is_logged_in", False) is True else None


def _by_provider(staff: StaffSessions, *, touch: bool, fresh: bool) -> SignedInMember:
    claims = _claims()
    if claims is None:
        raise SignedOut(texts.NOT_SIGNED_IN)
    config = staff.config
    name = provider_name(claims, config)
    check_age(claims, config, time.time())
    check_audience(claims)
    if is_by_other(st.context.cookies.get(AGAIN), name):
        raise SignedOut(texts.PROVIDER_OTHER)
    session_id = provider_session(claims)
    first = partial(_begin_session, staff, name, session_id, claims)
    return staff.by_id(name, session_id, first, touch=touch, fresh=fresh)


def _begin_session(staff: StaffSessions, name: str, session_id: str, claims: dict[str, Any]) -> None:
    staff.seed_role(name, provider_groups(claims, staff.config), "OIDC")
    agent, link = st.context.headers.get("User-Agent"), provider_link(claims)
    staff.sign_in_as(name, st.context.ip_address, agent, session_id=session_id, idp=link)


def auth_time_problem(claims: Mapping[str, Any], max_age: int, now: float) -> str | None:
    """Why the claim ``auth_time`` shows no authentication of the last ``max_age`` seconds; None: it does."""
    at = claims.get("auth_time")
    if isinstance(at, bool) or not isinstance(at, int | float):
        return texts.PROVIDER_SILENT
    if now - at < -_CLOCKS_DIFFER:
        return texts.PROVIDER_CLOCK
    return None if now - at <= max_age else texts.provider_too_old(span(max_age))
