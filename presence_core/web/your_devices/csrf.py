"""Protection against requests that another site makes the visitor's browser send.

A form needs three things: the site's cookie, which SameSite keeps from other sites; a token that this page gave to this
session; and headers of the browser that name no other origin.
"""

from __future__ import annotations

import hmac
import re
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from typing import Final

TOKEN_SECONDS: Final = 12 * 3600
"""How long an open page can be used."""

_SKEW: Final = 300
"""How far the clock of the process that made a token may be ahead, seconds."""

_TOKEN: Final = re.compile(r"([0-9a-f]{1,12})\.[A-Za-z0-9_-]{43}")


def make_token(key: bytes, ref: str, now: float) -> str:
    """The token for a session at this time (Unix seconds)."""
    made = f"{int(now):x}"
    mac = hmac.digest(key, f"{made} {ref}".encode("utf-8", "surrogateescape"), "sha256")
    return f"{made}.{urlsafe_b64encode(mac).rstrip(b'=').decode()}"


def is_token(key: bytes, ref: str, token: str, now: float) -> bool:
    """Whether this token was made for this session in the last 12 hours."""
    match = _TOKEN.fullmatch(token)
    if match is None:
        return False
    made = int(match[1], 16)
    return hmac.compare_digest(make_token(key, ref, made), token) and -_SKEW <= now - made <= TOKEN_SECONDS


def is_same_origin(headers: Mapping[str, str]) -> bool:
    """Whether the browser says that a page of this site sent the request. Browsers send at least one of these headers
    with a form; other programs need not."""
    fetch_site = headers.get("sec-fetch-site")
    if fetch_site is not None:
        return fetch_site in ("same-origin", "none")
    origin = headers.get("origin")
    return origin is None or origin.partition("://")[2] == headers.get("host", "")
