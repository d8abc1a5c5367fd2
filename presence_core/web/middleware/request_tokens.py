"""The tokens that a request brings, in its Authorization header and in cookies."""

from __future__ import annotations

from typing import Final, NamedTuple

from presence_core.operations.sessions.validate import is_token
from presence_core.web.cookies import read_cookies

MAX_COOKIES: Final = 4
"""Cookies of our name that are tried."""


class RequestTokens(NamedTuple):
    """What a request brings, in the order in which it counts."""

    tokens: list[str]
    bearer: bool = False  #: the first one is from the Authorization header, the others are cookies


def read_bearer(authorization: str) -> str:
    """The token of an Authorization header; empty if it has another scheme."""
    scheme, _, value = authorization.strip().partition(" ")
    return value.strip().strip('"') if scheme.lower() == "bearer" else ""


def read_tokens(authorization: str, cookie_header: str, cookie: str | None) -> RequestTokens:
    """The tokens of a request. ``cookie`` is the cookie's name; None: no cookie is read.

    Of several, those that cannot be a token are left out: an unreadable cookie must not keep its visitor out.
    """
    cookies = read_cookies(cookie_header, cookie) if cookie is not None and cookie_header else []
    bearer = read_bearer(authorization) if authorization else ""
    if not bearer and len(cookies) < 2:
        return RequestTokens(cookies)
    if bearer and not cookies:
        return RequestTokens([bearer], True)
    named = list(filter(is_token, cookies))[:MAX_COOKIES]
    if bearer and (is_token(bearer) or not named):
        return RequestTokens([bearer, *(token for token in named if token != bearer)], True)
    return RequestTokens(named or cookies[:1])
