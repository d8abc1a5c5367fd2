"""Whose address a request came from: the peer's, or what proxies of ours say, and nobody else's word."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

from presence_core.errors import InvalidArgument

UNIX: Final = "unix"
"""In ``trusted_proxies``: whoever connects by a Unix socket."""

_RULE: Final = 'must be a list of addresses or networks such as "10.0.0.0/8", or "unix"'


def parse_address(text: str) -> IPv4Address | IPv6Address | None:
    """One hop of X-Forwarded-For, or a peer: with or without a port, brackets, a zone. None for anything else."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        found = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        return found.ipv4_mapped
    return found


class Proxies:
    """The networks in which our own proxies live. By default there are none, and X-Forwarded-For means nothing."""

    def __init__(self, networks: Iterable[str] = ()) -> None:
        if isinstance(networks, str) or not isinstance(networks, Iterable):
            raise InvalidArgument("trusted_proxies", _RULE)
        self._networks: list[IPv4Network | IPv6Network] = []
        self._unix = False
        for one in networks:
            if one == UNIX:
                self._unix = True
                continue
            if not isinstance(one, str):
                raise InvalidArgument("trusted_proxies", _RULE)
            try:
                self._networks.append(ip_network(one))
            except ValueError:
                raise InvalidArgument("trusted_proxies", _RULE) from None

    def _trusts(self, address: IPv4Address | IPv6Address) -> bool:
        return any(address in network for network in self._networks)

    def client(self, peer: str | None, forwarded: str) -> str | None:
        """The address of the visitor: the rightmost hop that is not one of ours. None where nobody can say.

        ``forwarded`` is all of X-Forwarded-For, its lines joined by commas. What stands left of the first hop that is
        not ours, or that is no address, is the sender's word, and is not looked at.
        """
        here = parse_address(peer) if peer else None
        if here is None:
            if not self._unix or peer:  # a peer with a name is a test client's, not a socket's
                return None
        elif not self._trusts(here):
            return str(here)
        for hop in reversed(forwarded.split(",")):
            address = parse_address(hop)
            if address is None:
                break
            here = address
            if not self._trusts(address):
                break
        return None if here is None else str(here)
