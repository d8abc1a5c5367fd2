"""Read addresses as browsers, proxies, frameworks and people write them: the one reader of all ways in.

With a port (``203.0.113.9:51008``, ``[2001:db8::9]:443``), brackets, a zone (``fe80::1%eth0``), quotes, the slash that
Java writes before it, or the length that PostgreSQL writes behind it (``203.0.113.9/32``). An IPv4-mapped IPv6 address
is the IPv4 address.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

MAX_LENGTH: Final = 128
"""Characters of a text that may be an address. The longest one, with zone and port, has 70."""

_PORT: Final = re.compile(r":(?:\d{0,5}|_[A-Za-z0-9._-]+)")  # RFC 7239 allows a made-up one
_MAPPED_BITS: Final = 96


def parse_address(text: str) -> Address | None:
    """The address of a text. None if it is no address."""
    if len(text) > MAX_LENGTH:
        return None
    text = text.strip().strip("\"'").strip().removeprefix("/")
    if "/" in text:
        text = text.removesuffix("/128" if ":" in text else "/32")
    if text.startswith("["):
        host, end, rest = text[1:].partition("]")
        return _host(host) if end and (not rest or _PORT.fullmatch(rest)) else None
    found = _host(text)
    if found is None and ":" in text:  # 203.0.113.9:443; in IPv6, a port after eight groups or dots, or of five digits
        host, _, port = text.rpartition(":")
        is_whole = "." in host or "::" not in host or len(port) == 5
        found = _host(host) if is_whole and _PORT.fullmatch(f":{port}") else None
    return found


def _host(text: str) -> Address | None:
    try:
        address = ip_address(text.partition("%")[0] if ":" in text else text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def network_of(packed: bytes) -> bytes:
    """The network of a packed address, /24 or /48, as privacy/truncate_addresses.lua has it; b"" of none."""
    return packed[:3] + b"\0" if len(packed) == 4 else packed[:6] + bytes(10) if packed else b""


def parse_network(text: str) -> Network | None:
    """The network of a text in CIDR notation, or of one address. None if it is neither. Bits of a host are dropped."""
    if "/" not in text:
        address = parse_address(text)
        return None if address is None else ip_network(address)
    if not text.rpartition("/")[2].strip().isdecimal():  # a mask, such as 255.0.0.0
        return None
    try:
        network = ip_network(text.strip(), strict=False)
    except ValueError:
        return None
    if isinstance(network, IPv6Network) and network.prefixlen >= _MAPPED_BITS:
        mapped = network.network_address.ipv4_mapped
        if mapped is not None:
            return ip_network((mapped, network.prefixlen - _MAPPED_BITS))
    return network


# -- a list of proxies ------------------------------------------------------------------------------------------------

_QUOTED: Final = r'"(?:[^"\\]|\\.)*+"'
_WHOLE: Final = re.compile(rf'(?:[^"]|{_QUOTED})*+')
_ELEMENTS: Final = re.compile(rf'(?:[^",]|{_QUOTED})++')
_PAIRS: Final = re.compile(rf'(?<![A-Za-z])([A-Za-z]++)\s*+=\s*+({_QUOTED}|[^\s;"]*+)')
"""Anyone may write such a header, so its time is to grow with its length: no character is tried twice."""


def forwarded_for(value: str) -> list[str]:
    """Who sent the request to each proxy of a Forwarded header (RFC 7239), the first sender first; "" where a proxy
    does not say."""
    senders = []
    is_quoted = _WHOLE.fullmatch(value)  # else the sender has opened a quote that would hide what proxies add
    for element in _ELEMENTS.findall(value) if is_quoted else value.split(","):
        if element.strip():
            pairs = {name.lower(): text for name, text in _PAIRS.findall(element)}
            senders.append(pairs.get("for", ""))
    return senders
