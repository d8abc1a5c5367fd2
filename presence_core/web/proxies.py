"""Find the visitor's address: the peer's, or the one that trusted proxies report in a header."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from ipaddress import ip_network
from typing import Final, NamedTuple

from presence_core.errors import InvalidArgument
from presence_core.text.addresses import MAX_LENGTH, Network, forwarded_for, parse_address, parse_network

UNIX: Final = "unix"
"""In ``trusted_proxies``: trust peers that connect over a Unix socket."""

_RULE: Final = 'must be a list of addresses or networks such as "10.0.0.0/8", or "unix"'


MAX_KNOWN: Final = 8192
"""Peers and entries that are kept, so that they are read once: visitors make many requests, and proxies nearly all."""

FORWARDED_FOR: Final = "x-forwarded-for"
FORWARDED: Final = "forwarded"
_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}")


class Entry(NamedTuple):
    """An address."""

    address: str
    is_trusted: bool  #: it is a proxy of the site


class Proxies:
    """The networks of the site's own proxies, and the header in which they report the address of the visitor.

    ``header``: X-Forwarded-For, Forwarded, or one with an address, such as X-Real-IP. From other peers it is ignored.
    """

    def __init__(self, networks: Iterable[str] = (), header: str = FORWARDED_FOR) -> None:
        if not isinstance(header, str) or not _HEADER.fullmatch(header):
            raise InvalidArgument(
                "address_from", 'must be the name of a header, such as "x-forwarded-for"', "malformed"
            )
        self.header = header.lower()
        self._senders = forwarded_for if self.header == FORWARDED else _listed
        if isinstance(networks, str) or not isinstance(networks, Iterable):
            raise InvalidArgument("trusted_proxies", _RULE)
        self._networks: list[Network] = []
        self._unix = False
        for network in networks:
            if network == UNIX:
                self._unix = True
                continue
            if not isinstance(network, str):
                raise InvalidArgument("trusted_proxies", _RULE)
            self._networks.append(_strict_network(network))
        self._kept = lru_cache(MAX_KNOWN)(self._read)

    def _read(self, text: str) -> Entry | None:
        address = parse_address(text)
        return None if address is None else Entry(str(address), any(address in network for network in self._networks))

    def _entry(self, text: str) -> Entry | None:
        """The address of a text; None if it is no address."""
        return self._kept(text) if len(text) <= MAX_LENGTH else self._read(text)

    def client(self, peer: str | None, forwarded: str) -> str | None:
        """The visitor's address: the rightmost entry that is not a trusted proxy. None if it is unknown.

        ``forwarded`` is the header, its lines joined by commas. Entries to the left of the first one that is not
        trusted are ignored: the sender can write anything there. So no entry counts behind one that is no address.
        """
        client = self._entry(peer) if peer else None
        if client is None:
            if not self._is_socket(peer or ""):  # a peer with a name is a test client
                return None
        elif not client.is_trusted:
            return client.address
        for sender in reversed(self._senders(forwarded)):
            if sender and self._is_socket(sender.strip()):
                continue
            client = self._entry(sender)
            if client is None or not client.is_trusted:
                break
        return None if client is None else client.address

    def _is_socket(self, text: str) -> bool:
        """Whether a trusted proxy connects over a Unix socket, as servers write it."""
        return self._unix and (text in ("", "@") or text.startswith("unix:"))


def _listed(forwarded: str) -> list[str]:
    """X-Forwarded-For and its like. Some proxies leave a comma at the end."""
    return [entry for entry in forwarded.split(",") if entry.strip()]


def _strict_network(text: str) -> Network:
    """Bits of a host are refused: who writes 10.0.0.5/8 may mean another network."""
    try:
        ip_network(text)
    except ValueError:
        raise InvalidArgument("trusted_proxies", _RULE) from None
    network = parse_network(text)
    assert network is not None
    return network
