"""What is this machine and nothing else: for whatever is open to its own machine only (the HTTP service without keys,
the dashboard without sign-in), against the network, proxies, and web pages that point their own name here (DNS
rebinding).
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

PROXY_HEADERS: Final = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip")
"""Whoever sends one speaks for somebody else."""


def is_loopback(host: str | None) -> bool:
    """Whether this host name or address is this machine, and nothing else can be meant by it."""
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
    """The host that an address names; None for what is no address."""
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None
