"""OIDC: what the signed claims of a provider say about a sign-in, for pages and for the gate."""

from __future__ import annotations

import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

import streamlit as st
from streamlit.web.server.starlette.starlette_websocket import _get_signed_cookie_with_chunks

from presence_core import InvalidArgument
from presence_core import validation as check
from presence_core.validation import IDP_CLAIMS
from presence_dashboard import staff_names, texts
from presence_dashboard.gate.staff_sessions import StaffSessions
from presence_dashboard.gate_settings import Config
from presence_dashboard.roles import Denied, SignedOut

_CLOCKS_DIFFER: Final = 300  # seconds
_COOKIE: Final = "_streamlit_user"
_TOKENS: Final = "_streamlit_user_tokens"


def provider_name(claims: Mapping[str, Any], config: Config) -> str:
    """The staff name from the claims. Two identities of the provider are never one name.

    An email must be verified: otherwise anyone could claim any address.
    """
    claim = config.name_claim or ("email" if claims.get("email") else "sub")
    value = claims.get(claim)
    if claim == "email" and claims.get("email_verified") is not True:
        raise Denied(texts.PROVIDER_NO_EMAIL)
    if not isinstance(value, str) or not value:
        raise Denied(texts.NOT_SIGNED_IN)
    name = staff_names.of_sub(value) if claim == "sub" else staff_names.folded(value)
    if name is None or (claim == "email" and "@" not in name):
        raise Denied(texts.PROVIDER_NAME)
    return name


def provider_groups(claims: Mapping[str, Any], config: Config) -> list[str]:
    """The values of the claim that names roles or groups: a string or a list of strings."""
    claim = claims.get(config.role_claim) if config.role_claim else None
    values = [claim] if isinstance(claim, str) else claim if isinstance(claim, list) else []
    return [value for value in values if isinstance(value, str)]


def provider_session(claims: Mapping[str, Any]) -> str:
    """One session id for each sign-in: once ended, the sign-in is refused in every browser.

    Made of the signed claims, not of the cookie, which can be encoded in several ways.
    """
    signed = json.dumps(claims, sort_keys=True, default=str).encode()
    return urlsafe_b64encode(sha256(signed).digest()).decode()[:22]


def provider_link(claims: Mapping[str, Any]) -> dict[str, str] | None:
    """By what the provider names this sign-in when it ends it; None if it names none."""
    link = {name: claims[name] for name in IDP_CLAIMS if claims.get(name) is not None}
    try:
        check.idp_link(link)
    except InvalidArgument:
        return None
    return link


def check_age(claims: Mapping[str, Any], config: Config, now: float) -> None:
    """Refuse a sign-in that is older than a staff session may be. Streamlit's cookie lasts for 30 days."""
    issued = claims.get("iat")
    if not isinstance(issued, int | float) or not now - config.absolute < issued < now + _CLOCKS_DIFFER:
        raise SignedOut(texts.PROVIDER_TOO_OLD)


def check_audience(claims: Mapping[str, Any]) -> None:
    """Refuse a sign-in that the provider issued for another client: ``aud`` must have ours, and ``azp`` be ours."""
    ours, audience = st.secrets["auth"]["client_id"], claims.get("aud")
    audiences = audience if isinstance(audience, list) else [audience]
    if ours not in audiences or claims.get("azp", ours) != ours:
        raise SignedOut(texts.NOT_SIGNED_IN)


def claims_of(cookies: Mapping[str, str]) -> dict[str, Any] | None:
    """The claims in the cookie that Streamlit signed; None without one, or if it is too old or for another client."""
    try:
        raw = _get_signed_cookie_with_chunks(dict(cookies), _COOKIE)
        claims = json.loads(raw) if raw else None
    except (ValueError, KeyError):
        return None
    if not isinstance(claims, dict) or claims.pop("is_logged_in", False) is not True:
        return None
    claims.pop("origin", None)  # as Streamlit gives them to pages
    if _get_signed_cookie_with_chunks(dict(cookies), _TOKENS) is not None:
        claims["tokens"] = {}  # our settings expose none
    return claims


def is_live(claims: Mapping[str, Any] | None, staff: StaffSessions) -> bool:
    """Whether these claims are the live sign-in of a member with a role. Raises PresenceError."""
    if claims is None:
        return False
    try:
        name = _checked_name(claims, staff.config)
        return bool(staff.by_id(name, provider_session(claims), lambda: None))
    except (Denied, SignedOut):
        return False


def _checked_name(claims: Mapping[str, Any], config: Config) -> str:
    check_age(claims, config, time.time())
    check_audience(claims)
    return provider_name(claims, config)
