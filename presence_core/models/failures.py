"""A sign-in that failed, as staff see it."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from datetime import datetime
from ipaddress import ip_address, ip_network
from typing import Final

from presence_core.models.places import Place, read_place
from presence_core.models.sessions import moment, text
from presence_core.schema.failures import FailedName, FailureWhy

ROW: Final = struct.Struct(">QQI")
"""First and last failure, ms, and how many: include/failures.lua."""

_PLACE_LINES: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedLogin:
    """The failed sign-ins of one person, or of one typed name, for one reason and from one address."""

    uid: str | None  #: the person; None: the text that was typed is the uid of no person known here
    name_digest: str | None = None  #: of such a text, in place of it: 16 hex digits
    name_kind: FailedName | None = None  #: what such a text looks like
    why: FailureWhy
    count: int
    first_at: datetime
    at: datetime  #: the latest
    ip: str | None  #: as records have addresses; None: not known, or there were more than ten
    place: Place | None = None  #: of the address; of the latest failure, if the address is None
    app: str | None = None
    os: str | None = None
    browser: str | None = None
    rule: str | None = None  #: with "block_rule": the network, country ("FR") or app and version that it names

    @classmethod
    def from_row(cls, who: str, name: str, row: bytes) -> FailedLogin | None:
        """Decode a row; None for another program's."""
        why, dash, address = name.rpartition("-")
        lines = text(row[ROW.size :]).split("\n")
        if not dash or len(row) < ROW.size or len(lines) != _PLACE_LINES + 5:
            return None
        first, last, count = ROW.unpack_from(row)
        kind, app, os, browser = lines[:4]
        try:
            ip = str(ip_address(bytes.fromhex(address))) if address else None
            return cls(
                uid=None if who.startswith("\n") else who,
                name_digest=who[1:] if who.startswith("\n") else None,
                name_kind=kind or None,  # type: ignore[arg-type]  # as operations/failures/record.py writes it
                why=why,  # type: ignore[arg-type]  # as our scripts write it
                count=count,
                first_at=moment(first),
                at=moment(last),
                ip=ip,
                place=read_place("\n".join(lines[4:-1]).encode()) if any(lines[4:-1]) else None,
                app=app or None,
                os=os or None,
                browser=browser or None,
                rule=_rule_in_words(lines[-1]) or None,
            )
        except ValueError:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedNetwork:
    """The failed sign-ins of a network in the last hour or less."""

    network: str | None  #: a /24 or /48; None: addresses that are not known, and the networks beyond the limit
    count: int


def last_failure(row: bytes) -> int | None:
    """When the latest failure of a row was, ms; None for anything else."""
    return int(ROW.unpack_from(row)[1]) if len(row) > ROW.size else None


def network_in_words(stored: str) -> str | None:
    """A network as it is stored, in hex: 203.0.113.0/24."""
    try:
        packed = bytes.fromhex(stored)
        return f"{ip_address(packed)}/{24 if len(packed) == 4 else 48}" if packed else None
    except ValueError:
        return None


def _rule_in_words(stored: str) -> str:
    """What a block rule names: ``4/24:`` and a network in hex, ``country:`` and its code, or ``app:`` and a version."""
    front, _, value = stored.partition(":")
    family, slash, length = front.partition("/")
    if not slash:
        return value
    packed = bytes.fromhex(value).ljust(4 if family == "4" else 16, b"\0")
    return str(ip_network((packed, int(length)), strict=False))
