"""Small MaxMind DB files for tests (https://maxmind.github.io/MaxMind-DB/): 24-bit records, as the real files have."""

from __future__ import annotations

import ipaddress
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_MARKER = b"\xab\xcd\xefMaxMind.com"

Node = list[Any]  # two: a Node, the offset of an entry, or None


def city(
    country: str,
    name: str,
    at: tuple[float, float],
    asn: int | None = None,
    network: str | None = None,
    time_zone: str | None = None,
) -> dict[str, Any]:
    """An entry as GeoLite2 City and ASN have it, in one."""
    location: dict[str, Any] = {"latitude": float(at[0]), "longitude": float(at[1])}
    entry: dict[str, Any] = {
        "country": {"iso_code": country},
        "city": {"names": {"en": name}},
        "location": location | ({"time_zone": time_zone} if time_zone else {}),
    }
    if asn is not None:
        entry |= {"autonomous_system_number": asn}
    return entry | ({"autonomous_system_organization": network} if network else {})


LYON = city("FR", "Lyon", (45.76, 4.84), 64500, "Example Telecom", "Europe/Paris")
PARIS = city("FR", "Paris", (48.86, 2.35), 64501, "Example Cable")
TOKYO = city("JP", "Tokyo", (35.69, 139.69), 64510, "Example Net", "Asia/Tokyo")
PLACES: Mapping[str, Any] = {
    "192.0.2.0/24": LYON,
    "198.51.100.0/25": PARIS,
    "203.0.113.0/24": TOKYO,
    "198.51.100.128/25": {"country": {"iso_code": "DE"}},
    "2001:db8::/32": TOKYO,
}


def write_place_file(path: Path, networks: Mapping[str, Any] = PLACES, *, version: int = 6) -> Path:
    """Write a file, which takes the place of one that is there. A value may be bytes: raw data, also wrong data."""
    root: Node = [None, None]
    data = bytearray()
    for text, entry in networks.items():
        network = ipaddress.ip_network(text)
        bits = f"{int(network.network_address):0{network.max_prefixlen}b}"[: network.prefixlen]
        if network.version == 4 and version == 6:
            bits = "0" * 96 + bits
        node = root
        for bit in bits[:-1]:
            node[int(bit)] = node[int(bit)] or [None, None]
            node = node[int(bit)]
        node[int(bits[-1])] = len(data)
        data += entry if isinstance(entry, bytes) else _encoded(entry)
    nodes = [root]
    for node in nodes:
        nodes += [child for child in node if isinstance(child, list)]
    places = {id(node): number for number, node in enumerate(nodes)}
    tree = b""
    for node in nodes:
        for child in node:
            known = len(nodes) if child is None else len(nodes) + 16 + child if isinstance(child, int) else None
            tree += (places[id(child)] if known is None else known).to_bytes(3, "big")
    meta = {"node_count": len(nodes), "record_size": 24, "ip_version": version, "database_type": "Test",
            "languages": ["en"], "binary_format_major_version": 2, "binary_format_minor_version": 0,
            "build_epoch": 1, "description": {"en": "test"}}  # fmt: skip
    new = path.with_name(f"{path.name}.new")
    new.write_bytes(tree + bytes(16) + bytes(data) + _MARKER + _encoded(meta))
    os.replace(new, path)
    return path


_NUMBERS = {"build_epoch": 9, "record_size": 5, "ip_version": 5, "binary_format_major_version": 5,
            "binary_format_minor_version": 5}  # fmt: skip
"""Types of numbers by name; others are of type 6, uint32."""


def _encoded(value: Any, number: int = 6) -> bytes:
    if isinstance(value, str):
        raw = value.encode()
        return _control(2, len(raw)) + raw
    if isinstance(value, float):
        return _control(3, 8) + struct.pack(">d", value)
    if isinstance(value, int):
        raw = value.to_bytes(4, "big").lstrip(b"\0")
        return _control(number, len(raw)) + raw
    if isinstance(value, list):
        return _control(11, len(value)) + b"".join(map(_encoded, value))
    items = (_encoded(name) + _encoded(item, _NUMBERS.get(name, 6)) for name, item in value.items())
    return _control(7, len(value)) + b"".join(items)


def _control(kind: int, size: int) -> bytes:
    """The first bytes of a value: its type and size."""
    extended = b"" if kind < 8 else bytes((kind - 7,))
    first = (kind << 5) if kind < 8 else 0
    if size < 29:
        return bytes((first | size,)) + extended
    if size < 285:
        return bytes((first | 29,)) + extended + bytes((size - 29,))
    return bytes((first | 30,)) + extended + (size - 285).to_bytes(2, "big")
