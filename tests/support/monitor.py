"""MONITOR, on a connection of its own: the commands that a server really received."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

_LINE = re.compile(rb"^\+?(\d+\.\d+) \[\d+ ([^\]]*)\] (.*)$", re.DOTALL)
_WORD = re.compile(rb'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_ESCAPE = re.compile(rb"\\(x[0-9a-f]{2}|.)", re.DOTALL)
_PLAIN = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"a": b"\a", b"b": b"\b"}


@dataclass(frozen=True)
class Line:
    """One command."""

    by_script: bool  #: called from Lua; otherwise sent by a client
    words: list[bytes]


def _unescape(match: re.Match[bytes]) -> bytes:
    what = match[1]
    return bytes([int(what[1:], 16)]) if what[:1] == b"x" and len(what) == 3 else _PLAIN.get(what, what)


def parse(text: bytes) -> Line:
    match = _LINE.match(text)
    assert match is not None, text
    return Line(match[2] == b"lua", [_ESCAPE.sub(_unescape, word) for word in _WORD.findall(match[3])])


class Monitor:
    """``with Monitor(client) as monitor: …``; afterwards ``monitor.lines`` has the commands, in order."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._connection = client.connection_pool.connection_class(
            **{
                name: value
                for name, value in client.connection_pool.connection_kwargs.items()
                if name in ("host", "port", "path", "db", "password")
            },
            socket_timeout=10,
            protocol=2,
        )
        self.lines: list[Line] = []

    def __enter__(self) -> Self:
        self._client.ping()  # connects it now: the record is not to have its HELLO
        self._connection.connect()
        self._connection.send_command("MONITOR")
        assert self._connection.read_response() == b"OK"
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        mark = secrets.token_hex(8).encode()
        self._client.echo(mark)  # the stream is in order: after this line there is none of ours
        try:
            while kind is None:
                line = parse(self._connection.read_response())
                if line.words[-1:] == [mark]:
                    break
                self.lines.append(line)
        finally:
            self._connection.disconnect()
