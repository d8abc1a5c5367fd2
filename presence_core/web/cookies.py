"""Write and read the cookie that holds a token, so that neither scripts nor other sites can read it."""

from __future__ import annotations

import re
import secrets
from typing import Final, Literal, get_args

from presence_core import validation as check
from presence_core.errors import InvalidArgument

SameSite = Literal["lax", "strict", "none"]

_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")  # a token of RFC 9110
_VALUE: Final = re.compile(r"[A-Za-z0-9._~-]{1,2048}")
_PATH: Final = re.compile(r"/[\x21-\x3a\x3c-\x7e]*")
_DOMAIN: Final = re.compile(r"\.?[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*")


def check_cookie(
    name: object, *, secure: object = True, same_site: object = "lax", path: object = "/", domain: object = None
) -> None:
    """Raise InvalidArgument for a cookie that browsers would drop, or would accept without protection."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidArgument("name", "must be 1 to 128 characters that a cookie name may hold")
    if not isinstance(secure, bool):
        raise InvalidArgument("secure", "must be True or False")
    if not isinstance(same_site, str) or same_site not in get_args(SameSite):
        raise InvalidArgument("same_site", 'must be "lax", "strict" or "none"')
    if not isinstance(path, str) or not _PATH.fullmatch(path):
        raise InvalidArgument("path", "must begin with /, without white space or ;")
    if domain is not None and (not isinstance(domain, str) or not _DOMAIN.fullmatch(domain)):
        raise InvalidArgument("domain", "must be a host name")
    prefix = name.lower()  # browsers compare these prefixes without regard to case
    if prefix.startswith("__host-") and not (secure and path == "/" and domain is None):
        raise InvalidArgument("name", "with __Host- needs secure=True, path / and no domain")
    if prefix.startswith("__secure-") and not secure:
        raise InvalidArgument("name", "with __Secure- needs secure=True")
    if same_site == "none" and not secure:
        raise InvalidArgument("same_site", '"none" needs secure=True')


def set_cookie_header(
    token: str,
    *,
    name: str = "presence",
    secure: bool = True,
    same_site: SameSite = "lax",
    path: str = "/",
    max_age: int | None = None,
    domain: str | None = None,
) -> str:
    """The value of a Set-Cookie header for ``login.token``. It is always HttpOnly, so scripts cannot read it.

    secure: send it over HTTPS only; False is for development. max_age: seconds; None: until the browser closes. If one
    host serves the whole site, begin the name with ``__Host-``: then no other host of the domain can set the cookie.
    Raises InvalidArgument.
    """
    check_cookie(name, secure=secure, same_site=same_site, path=path, domain=domain)
    if not isinstance(token, str) or not _VALUE.fullmatch(token):
        raise InvalidArgument("token", "must be the token of a Login")
    if max_age is not None:
        check.seconds("max_age", max_age)
    return f"{name}={token}{_attributes(secure, same_site, path, max_age, domain)}"


DEVICE_COOKIE: Final = "__Host-presence-device"
"""Name of the cookie that holds the id of a device."""

DEVICE_LIFE: Final = 400 * 86_400
"""Its life in seconds: browsers keep no cookie longer."""


def new_device_id() -> str:
    """The id of a device that has none: 128 random bits."""
    return secrets.token_urlsafe(16)


def device_id_of(cookie_header: str) -> str | None:
    """The id of the device in a Cookie header; None if there is none, or it is not one of ours."""
    value = read_cookie(cookie_header, DEVICE_COOKIE)
    return value if value is not None and check.is_session_id(value) else None


def device_cookie_header(device_id: str) -> str:
    """The value of a Set-Cookie header that keeps the id of a device for 400 days: HttpOnly, Secure, SameSite=Lax.

    Set it only after a login, and again at each login, so that it does not end for a visitor that returns. The name
    begins with ``__Host-``: no other host of the domain can set or read it. Raises InvalidArgument.
    """
    check.device_id(device_id)
    return f"{DEVICE_COOKIE}={device_id}{_attributes(True, 'lax', '/', DEVICE_LIFE, None)}"


def clear_cookie_header(
    *,
    name: str = "presence",
    secure: bool = True,
    same_site: SameSite = "lax",
    path: str = "/",
    domain: str | None = None,
) -> str:
    """The value of a Set-Cookie header that deletes the cookie. Pass the options that it was set with."""
    check_cookie(name, secure=secure, same_site=same_site, path=path, domain=domain)
    return f"{name}={_attributes(secure, same_site, path, 0, domain)}"


def _attributes(secure: bool, same_site: SameSite, path: str, max_age: int | None, domain: str | None) -> str:
    parts = ["", f"Path={path}"]
    if max_age is not None:
        parts.append(f"Max-Age={max_age}")
    if domain is not None:
        parts.append(f"Domain={domain}")
    parts.append("HttpOnly")
    if secure:
        parts.append("Secure")
    parts.append(f"SameSite={same_site.capitalize()}")
    return "; ".join(parts)


def read_cookie(header: str, name: str) -> str | None:
    """The value of this cookie in a Cookie header. If it is there twice, the first one: it has the longest path."""
    if name not in header:
        return None
    start = f"{name}="
    for part in header.split(";"):
        part = part.strip()
        if part.startswith(start):
            return part[len(start) :].strip().strip('"') or None
    return None
