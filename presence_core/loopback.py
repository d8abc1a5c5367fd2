"""Whether a host is this machine: for services that are open to this machine only.

These are the HTTP service without keys and the dashboard without sign-in. They must refuse the network, proxies, and
web pages whose own name points here (DNS rebinding).
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

_PROXY_HEADERS: Final = frozenset(
    (
        "forwarded", "via", "client-ip", "true-client-ip", "fastly-client-ip", "fly-client-ip", "incap-client-ip",
        "cdn-loop", "proxy-connection", "proxy-client-ip", "wl-proxy-client-ip", "x-real-ip", "x-client-ip",
        "x-cluster-client-ip", "x-originating-ip", "x-appengine-user-ip", "x-cloud-trace-context", "x-amzn-trace-id",
        "x-amz-cf-id", "x-nf-client-connection-ip", "x-proxyuser-ip", "x-sucuri-clientip", "x-forwarded",
        "do-connecting-ip", "ngrok-trace-id",
    )
)  # fmt: skip
_PROXY_PREFIXES: Final = (
    "cf-", "remote-", "tailscale-", "x-arr-", "x-auth-request-", "x-azure-", "x-envoy-", "x-forwarded-", "x-goog-",
    "x-ms-client-", "x-original-", "x-proxy-", "x-remote-", "x-vercel-",
)  # fmt: skip


def is_proxied(names: Iterable[str]) -> bool:
    """Whether a request with headers of these names was forwarded for another client.

    Proxies, tunnels and content networks say so in many words: there is no complete list.
    """
    return any(
        name in _PROXY_HEADERS or name.startswith(_PROXY_PREFIXES) for name in (given.lower() for given in names)
    )


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
