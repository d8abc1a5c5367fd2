"""Find the visitor's address: the peer's, or the one that trusted proxies report in X-Forwarded-For."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, NamedTuple

from presence_core.errors import InvalidArgument

UNIX: Final = "unix"
"""In ``trusted_proxies``: trust peers that connect over a Unix socket."""

_RULE: Final = 'must be a list of addresses or networks such as "10.0.0.0/8", or "unix"'


MAX_KNOWN: Final = 8192
"""Peers and entries that are kept, so that they are read once: visitors make many requests, and proxies nearly all."""

MAX_LENGTH: Final = 128
"""Characters of a text that is kept. Addresses are shorter; the sender of a request can write anything."""


class Entry(NamedTuple):
    """An address."""

    address: str
    is_trusted: bool  #: it is a proxy of the site


def parse_address(text: str) -> IPv4Address | IPv6Address | None:
    """A peer or an entry of X-Forwarded-For, with or without port, brackets and zone. None if it is no address."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


class Proxies:
    """The networks of the site's own proxies. Without any, X-Forwarded-For is ignored."""

    def __init__(self, networks: Iterable[str] = ()) -> None:
        if isinstance(networks, str) or not isinstance(networks, Iterable):
            raise InvalidArgument("trusted_proxies", _RULE)
        self._networks: list[IPv4Network | IPv6Network] = []
        self._unix = False
        for network in networks:
            if network == UNIX:
                self._unix = True
                continue
            if not isinstance(network, str):
                raise InvalidArgument("trusted_proxies", _RULE)
            try:
                self._networks.append(ip_network(network))
            except ValueError:
                raise InvalidArgument("trusted_proxies", _RULE) from None
        self._kept = lru_cache(MAX_KNOWN)(self._read)

    def _read(self, text: str) -> Entry | None:
        address = parse_address(text)
        return None if address is None else Entry(str(address), any(address in network for network in self._networks))

    def _entry(self, text: str) -> Entry | None:
        """The address of a text; None if it is no address."""
        return self._kept(text) if len(text) <= MAX_LENGTH else self._read(text)

    def client(self, peer: str | None, forwarded: str) -> str | None:
        """The visitor's address: the rightmost entry that is not a trusted proxy. None if it is unknown.

        ``forwarded`` is X-Forwarded-For, its lines joined by commas. Entries to the left of the first one that is not
        trusted, or is no address, are ignored: the sender can write anything there.
        """
        client = self._entry(peer) if peer else None
        if client is None:
            if not self._unix or peer:  # a peer with a name is a test client, not a Unix socket
                return None
        elif not client.is_trusted:
            return client.address
        for entry in reversed(forwarded.split(",")):
            address = self._entry(entry)
            if address is None:
                break
            client = address
            if not address.is_trusted:
                break
        return None if client is None else client.address
