"""Who acts, and what they may. Asked inside every action, each time: what a page showed a moment ago gives nobody a
right.

How people get in is the gate's; this is what it comes to for a page that is open.
"""

from __future__ import annotations

import json
import os
import time
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from functools import partial
from hashlib import sha256
from typing import Any, Final

import streamlit as st

from presence_core import PresenceError
from presence_dashboard import texts
from presence_dashboard.gate.config import Config, Mode
from presence_dashboard.gate.desk import COOKIE, Desk, Member, NoRole, open_desk
from presence_dashboard.gate.mark import HEADER, is_marked
from presence_dashboard.roles import ROLES, Actor, CannotTell, Denied, Right, Role, SignedOut
from presence_dashboard.store import open_store

__all__ = [
    "ROLES",
    "Actor",
    "CannotTell",
    "Denied",
    "Right",
    "Role",
    "SignedOut",
    "current",
    "may",
    "mode",
    "require",
    "sign_out",
    "stop_without_gate",
]

LOCAL_OPERATOR: Final = "local operator"

_CLOCKS_DIFFER: Final = 300  # seconds


def current(*, touch: bool = True) -> Actor:
    """The one who looks at this page. touch: they did something just now; a page that renews itself is no sign of life.

    May be up to two seconds old, and while Redis is away a few minutes. Raises SignedOut.
    """
    try:
        return _actor(touch=touch, anew=False)
    except Denied as denied:
        raise SignedOut(str(denied)) from denied
    except PresenceError as away:
        raise CannotTell(texts.CANNOT_TELL) from away


def may(right: Right) -> bool:
    """Whether the one who looks at this page may, as far as a part of it that renews itself can tell."""
    try:
        return current(touch=False).may(right)
    except SignedOut:
        return False


def require(right: Right, *, what: str, uid: str | None = None) -> Actor:
    """The one who acts, if they may: asked of the store anew. what, uid: what is tried, for the audit of denials.

    Raises SignedOut, Denied, and Unavailable where that cannot be found out.
    """
    try:
        actor = _actor(touch=True, anew=True)
    except SignedOut as over:
        who = _name()
        if who is not None:
            _write_down(who, what, "has no role" if isinstance(over, NoRole) else "is signed out", uid)
        raise
    if not actor.may(right):
        _write_down(actor.name, what, f"role {actor.role}", uid)
        raise Denied(texts.may_not(actor.role))
    return actor


def stop_without_gate() -> None:
    """End a page's script with one sentence, unless the gate let its connection in. The first thing in each page."""
    if not _has_gate():
        st.error(texts.NO_GATE)
        st.stop()


def mode() -> Mode:
    """How people get in here."""
    return _config().mode


def sign_out() -> None:
    """End the sign-in of this page where Streamlit keeps it, which is with OIDC; elsewhere /sign-out is the way."""
    claims = _claims()
    if claims is not None:
        try:
            open_desk().leave_id(provider_name(claims, _config()), provider_session(claims))
        except (Denied, PresenceError):
            pass  # the cookie goes, whatever becomes of the session
    st.logout()


def _has_gate() -> bool:
    return is_marked(st.context.headers.get_all(HEADER))


def _config() -> Config:
    return Config.from_env(os.environ)


def _actor(*, touch: bool, anew: bool) -> Actor:
    if not _has_gate():
        raise Denied(texts.NO_GATE)
    config = _config()
    if config.mode == "open":
        return config.actor(LOCAL_OPERATOR, config.open_role)
    desk = open_desk()
    if config.mode == "oidc":
        member = _by_provider(desk, touch=touch, anew=anew)
    else:
        member = desk.by_token(st.context.cookies.get(COOKIE), touch=touch, anew=anew)
    return config.actor(member.name, member.role)


def _name() -> str | None:
    """Who tries, for the audit: whose session it is or was; None where nobody's ever was."""
    claims, config = _claims(), _config()
    if config.mode == "oidc" and claims is not None:
        return provider_name(claims, config)
    found = open_desk().sessions.validate(st.context.cookies.get(COOKIE, ""), touch=False)
    record = found.session or found.ended
    return record.uid if record else None


def _write_down(by: str, what: str, why: str, uid: str | None) -> None:
    try:
        open_store().presence.denied(by=by, what=what, uid=uid, reason=why)
    except PresenceError:
        pass  # it is refused all the same, and Redis was just there


# -- OIDC: Streamlit proves who somebody is, and the rest is as everywhere --------------------------------------------


def _claims() -> dict[str, Any] | None:
    """What the provider said of who is signed in, as Streamlit has checked it; None where nobody is."""
    claims: dict[str, Any] = dict(st.user.to_dict())
    return claims if claims.pop("is_logged_in", False) is True else None


def _by_provider(desk: Desk, *, touch: bool, anew: bool) -> Member:
    claims = _claims()
    if claims is None:
        raise SignedOut(texts.NOT_SIGNED_IN)
    config = desk.config
    name = provider_name(claims, config)
    check_age(claims, config, time.time())
    session_id = provider_session(claims)
    first = partial(_first_time, desk, name, session_id, provider_groups(claims, config))
    return desk.by_id(name, session_id, first, touch=touch, anew=anew)


def _first_time(desk: Desk, name: str, session_id: str, groups: list[str]) -> None:
    desk.seeded(name, groups, "OIDC")
    headers = st.context.headers
    desk.admit(name, st.context.ip_address, headers.get("User-Agent"), session_id=session_id)


def provider_name(claims: Mapping[str, Any], config: Config) -> str:
    """Who somebody is. An email counts where the provider says that it is verified: else anybody could claim any."""
    claim = config.name_claim or ("email" if claims.get("email") else "sub")
    name = claims.get(claim)
    if claim == "email" and claims.get("email_verified") is not True:
        raise Denied(texts.PROVIDER_NO_EMAIL)
    name = name.strip().lower() if isinstance(name, str) else ""
    if not name or not name.isprintable() or len(name.encode()) > 128:  # as of a proxy: see gate/signed_in.py
        raise Denied(texts.NOT_SIGNED_IN)
    return name


def provider_groups(claims: Mapping[str, Any], config: Config) -> list[str]:
    """The values of the claim that names roles or groups: a text, or a list of them."""
    said = claims.get(config.role_claim) if config.role_claim else None
    values = [said] if isinstance(said, str) else said if isinstance(said, list) else []
    return [value for value in values if isinstance(value, str)]


def provider_session(claims: Mapping[str, Any]) -> str:
    """One id for each sign-in, made of what was signed (not of the cookie, which can be written in several ways): once
    ended, that very sign-in opens nothing any more, in no browser."""
    signed = json.dumps(claims, sort_keys=True, default=str).encode()
    return urlsafe_b64encode(sha256(signed).digest()).decode()[:22]


def check_age(claims: Mapping[str, Any], config: Config, now: float) -> None:
    """Streamlit's cookie lasts for 30 days. A sign-in lasts as long as staff sessions may."""
    issued = claims.get("iat")
    if not isinstance(issued, int | float) or not now - config.absolute < issued < now + _CLOCKS_DIFFER:
        raise SignedOut(texts.PROVIDER_TOO_OLD)
