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
        raise InvalidArgument("secure", "must be True or False", "wrong_type")
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
    return next((value for value in read_cookies(cookie_header, DEVICE_COOKIE) if check.is_session_id(value)), None)


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


MAX_CLEARED: Final = 3
"""Paths and domains for which copies of a cookie are deleted: 9 headers."""


def clear_copies_headers(
    *, name: str, secure: bool, same_site: SameSite, domain: str | None, url_path: str, host: str
) -> list[str]:
    """Set-Cookie headers that delete the copies of a cookie which a request for this URL may have brought.

    Copies come from an earlier setting of path or domain. A Cookie header does not say where they belong, so they are
    deleted for the path / and the first parts of the URL's path, for this host and the domains above it.
    """
    paths: list[str] = ["/"]
    domains: list[str | None] = [None]
    if not name.lower().startswith("__host-"):  # of such a cookie there are no copies
        parts = [part for part in url_path.split("/") if part]
        paths += [path for end in range(1, len(parts) + 1) if _PATH.fullmatch(path := "/" + "/".join(parts[:end]))]
        domains += dict.fromkeys([domain] if domain else []) | dict.fromkeys(_domains_of(host))
    return [
        clear_cookie_header(name=name, secure=secure, same_site=same_site, path=path, domain=over)
        for over in domains[:MAX_CLEARED]
        for path in paths[:MAX_CLEARED]
    ]


def _domains_of(host: str) -> list[str]:
    """The domain of a Host header and those above it, the highest first; none of an address or a local name."""
    labels = host.partition(":")[0].lower().split(".")
    if len(labels) < 2 or labels[-1].isdigit() or not _DOMAIN.fullmatch(".".join(labels)):
        return []
    return [".".join(labels[begin:]) for begin in range(len(labels) - 2, -1, -1)]


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
    """The value of this cookie in a Cookie header. If it is there several times, the first one that is not empty."""
    return next(iter(read_cookies(header, name)), None)


def read_cookies(header: str, name: str) -> list[str]:
    """The values of this cookie in a Cookie header, without empty ones and repetitions.

    A browser sends several cookies of a name if they have different paths or domains, those with the longest path
    first; the header does not say which is which.
    """
    start = f"{name}="
    count = header.count(start)
    if count == 1:  # nearly always
        begin = header.index(start)
        end = header.find(";", begin)
        value = header[begin + len(start) : None if end < 0 else end].strip().strip('"')
        is_whole_name = begin == 0 or header[begin - 2 : begin] == "; " or header[:begin].rstrip()[-1:] in ("", ";")
        return [value] if value and is_whole_name else []
    values: dict[str, None] = {}
    for part in header.split(";") if count else ():
        part = part.strip()
        if part.startswith(start):
            values[part[len(start) :].strip().strip('"')] = None
    return [value for value in values if value]
