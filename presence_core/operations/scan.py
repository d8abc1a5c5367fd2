"""Large keys, read a part at a time."""

from __future__ import annotations

from collections.abc import Callable

from presence_core.scripts.calls import Op, command, pairs

Pairs = list[tuple[bytes, bytes]]
"""(member, score) of a sorted set; (field, value) of a hash."""


def scan_part(scan_command: str, key: str, cursor: bytes, count: int, *match: str | bytes) -> Op[tuple[bytes, Pairs]]:
    """Read the part of a key at this cursor, of about ``count`` pairs. Returns the next cursor, b"0" at the end."""
    [(next_cursor, flat)] = yield [command(key, scan_command, key, cursor, *match, "COUNT", count)]
    return next_cursor, pairs(flat)


def scan(scan_command: str, key: str, count: int, act: Callable[[Pairs], Op[None]]) -> Op[None]:
    """Run ``act`` on every part of a key, of about ``count`` pairs. ``scan_command``: ZSCAN or HSCAN. As there, ``act``
    may see a pair twice."""
    cursor = b"0"
    while True:
        cursor, part = yield from scan_part(scan_command, key, cursor, count)
        yield from act(part)
        if cursor == b"0":
            return
