"""Large keys, read a part at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from presence_core.scripts.calls import Call, Op, command, pairs

Pairs = list[tuple[bytes, bytes]]
"""(member, score) of a sorted set; (field, value) of a hash."""


def scan_call(scan_command: str, key: str, count: int, cursor: bytes, *match: str | bytes) -> Call:
    return command(key, scan_command, key, cursor, *match, "COUNT", str(count))


def scan_part(scan_command: str, key: str, cursor: bytes, count: int, *match: str | bytes) -> Op[tuple[bytes, Pairs]]:
    """Read the part of a key at this cursor, of about ``count`` pairs. Returns the next cursor, b"0" at the end."""
    [(next_cursor, flat)] = yield [scan_call(scan_command, key, count, cursor, *match)]
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


class ReadAhead:
    """Runs ``act`` on every part of a scan, a part at each step, while the server already reads the next one.

    One batch has the scan of the next part, the first batch of ``act`` for this part, and behind them the second one
    for the part before. Where the calls of the second are built late (``later``), client and server work at the same
    time. ``act`` for one part ends before the second batch for the next is sent. So only its first batch may be early:
    it must not rely on what ``act`` writes for other parts. Nor may ``act`` say ``sum += yield from …``: that reads the
    sum before ``act`` for the part before has added to it.

    A step that has failed may be run again, if all calls may.
    """

    def __init__(self, read: Callable[[bytes], Call], act: Callable[[Any], Op[None]]) -> None:
        self._read, self._act = read, act
        self._cursor: bytes | None = None  # of the next part; None: nothing has been read
        self._part: Any = None
        self._before: Op[None] | None = None  # ``act`` for the part before
        self._calls: list[Call] | None = None  # its next batch; None: it has ended
        self.done = False

    def step(self) -> Op[None]:
        if self._cursor is None:
            [(self._cursor, self._part)] = yield [self._read(b"0")]
        ahead = [] if self._cursor == b"0" else [self._read(self._cursor)]
        act = self._act(self._part)
        first = next(act, [])
        replies = yield [*ahead, *first, *(self._calls or ())]
        seen = len(ahead) + len(first)
        yield from self._end(replies[seen:])
        self._before, self._calls = act, _next_batch(act, replies[len(ahead) : seen])
        if ahead:
            self._cursor, self._part = replies[0]
            return
        if self._calls is not None:
            yield from self._end((yield self._calls))
        self.done = True

    def _end(self, replies: list[Any]) -> Op[None]:
        """Run ``act`` for the part before to its end."""
        while self._before is not None and self._calls is not None:
            self._calls = _next_batch(self._before, replies)
            if self._calls is not None:
                replies = yield self._calls


def _next_batch(operation: Op[None], replies: list[Any]) -> list[Call] | None:
    """The next batch of an operation; None at its end."""
    try:
        return operation.send(replies)
    except StopIteration:
        return None


def read_ahead(read: Callable[[bytes], Call], act: Callable[[Any], Op[None]]) -> Op[None]:
    """Run all steps of a ``ReadAhead``."""
    parts = ReadAhead(read, act)
    while not parts.done:
        yield from parts.step()
