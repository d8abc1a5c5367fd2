"""Whether a host is this machine: for services that are open to this machine only.

These are the HTTP service without keys and the dashboard without sign-in. They must refuse the network, proxies, and
web pages whose own name points here (DNS rebinding).
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

PROXY_HEADERS: Final = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip")
"""A request with one of these was forwarded for another client."""


def is_loopback(host: str | None) -> bool:
    """Whether this host name or address can only mean this machine."""
    if host is None:
        return False
    if host.lower() == "localhost":
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def host_of(url: str) -> str | None:
    """The host of a URL; None if it cannot be parsed."""
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None
