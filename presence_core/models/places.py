"""The place of a login: what a MaxMind DB file says about its address, as one short text.

The record keeps five lines: country, AS number, name of the network, coordinates, city. What a truncation of addresses
leaves comes first: city and coordinates go, country and network stay.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

MAX_BYTES: Final = 64
"""Of the text: a hash keeps its compact encoding only while each value has at most 64 bytes."""

MAX_NETWORK: Final = 16
"""Bytes of the name of a network, where the city needs the rest."""

_LAST_MS: Final = 253_402_300_799_000  # the end of the year 9999

NOT_FOR_CITY: Final = 9
"""Bytes that a city leaves free: field ``o`` of a distant login has flags and a time before the last place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where an address is, as the operator's place file says. Names are as the file has them, in English; long ones
    are cut."""

    country: str | None = None  #: ISO 3166-1 code: "FR"
    city: str | None = None
    network: str | None = None  #: the name of the network's owner
    asn: int | None = None  #: the number of the network, an autonomous system: 64500
    latitude: int | None = None  #: whole degrees; with ``longitude`` or not at all
    longitude: int | None = None

    @property
    def network_id(self) -> str | None:
        """The number of the network as filters and facets have it: "AS64500"."""
        return None if self.asn is None else f"AS{self.asn}"

    @property
    def words(self) -> str:
        """City and country: "Lyon, FR". Empty if neither is known."""
        return ", ".join(filter(None, (self.city, self.country)))

    def packed(self) -> bytes:
        """The text that a record keeps, at most MAX_BYTES; empty if nothing is known."""
        country = self.country or ""
        asn = "" if self.asn is None else str(self.asn)
        at = "" if self.latitude is None or self.longitude is None else f"{self.latitude},{self.longitude}"
        room = MAX_BYTES - len(country) - len(asn) - len(at) - 4
        network = (self.network or "").encode()
        city = cut((self.city or "").encode(), room - max(min(len(network), MAX_NETWORK), NOT_FOR_CITY))
        network = cut(network, room - len(city))
        if not (country or asn or at or city or network):
            return b""
        return b"\n".join((country.encode(), asn.encode(), network, at.encode(), city))


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a session was used from, and with which kind of browser, before or after a move."""

    place: Place | None = None  #: None: not known, or no place file
    network: str | None = None  #: "AS64500"; where that is not known, the /16 of IPv4 or the /32 of IPv6
    os: str | None = None  #: family, parsed from the user agent
    browser: str | None = None  #: family, parsed from the user agent


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A session was used from somewhere else than before: docs/use/moves.md has the rule."""

    at: datetime
    last_seen: datetime  #: when it was last seen before that
    before: Origin
    after: Origin
    distant: bool = False  #: farther than a plane flies in the time between


def compared_network(address: bytes, place: bytes) -> bytes:
    """What a move compares of an address, as moves/note_move.lua does: country and AS number of its place; where the
    number is not known, /16 of IPv4 or /32 of IPv6. Both arguments are packed."""
    country, _, rest = place.partition(b"\n")
    number = rest.partition(b"\n")[0]
    return country + b"\n" + (b"AS" + number if number else address[:2] if len(address) == 4 else address[:4])


@lru_cache(maxsize=8192)
def read_move(packed: bytes) -> tuple[Place | None, Move | None]:
    """The place of the latest address and the last move, of the field ``w`` as moves/note_move.lua writes it. None
    for each that is not known."""
    lines = packed.decode("utf-8", "replace").split("\n")
    if len(lines) not in (6, 27, 28):  # 27: before families were kept
        return None, None
    place = None if lines[5] else _place_of(lines[:5])
    times = lines[6:8]
    if not times or not all(time.isascii() and time.isdecimal() and len(time) < 16 for time in times):
        return place, None
    at, last_seen = (datetime.fromtimestamp(min(int(time), _LAST_MS) / 1000, UTC) for time in times)
    before, after = (_origin(lines[first : first + 8]) for first in (9, 17))
    return place, Move(at=at, last_seen=last_seen, before=before, after=after, distant=lines[8] == "distant")


def _place_of(lines: list[str]) -> Place | None:
    return read_place("\n".join(lines).encode()) if any(lines) else None


def _origin(lines: list[str]) -> Origin:
    place, (network, os, browser) = _place_of(lines[:5]), lines[5:]
    known = place.network_id if place else None
    return Origin(place=place, network=known or network or None, os=os or None, browser=browser or None)


def cut(text: bytes, most: int) -> bytes:
    """UTF-8 of at most so many bytes: a character is there whole or not at all."""
    return text if len(text) <= most else text[:most].decode("utf-8", "ignore").rstrip().encode()


@lru_cache(maxsize=8192)
def read_place(packed: bytes | None) -> Place | None:
    """What ``Place.packed`` has written; None for anything else. Cached: most sessions come from few places."""
    if not packed:
        return None
    lines = packed.decode("utf-8", "replace").split("\n")
    if len(lines) != 5:
        return None
    country, asn, network, at, city = lines
    latitude, _, longitude = at.partition(",")
    has_coordinates = _is_degrees(latitude) and _is_degrees(longitude)
    return Place(
        country=country or None,
        city=city or None,
        network=network or None,
        asn=int(asn) if asn.isascii() and asn.isdecimal() and len(asn) <= 10 else None,
        latitude=int(latitude) if has_coordinates else None,
        longitude=int(longitude) if has_coordinates else None,
    )


def _is_degrees(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdecimal() and len(digits) <= 3
