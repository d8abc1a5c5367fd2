"""A small HTTP/1.1 client for asyncio: some keep-alive connections to one site, shared by many visitors."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

SECONDS: Final = 10.0
"""How long one exchange may take."""


class Unreachable(Exception):
    """The site did not answer, or not in HTTP."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]  #: names in lower case; of several alike, the last
    body: bytes

    def cookie(self, name: str) -> str | None:
        """The value that this answer sets a cookie to; empty where it deletes it."""
        key, _, value = self.headers.get("set-cookie", "").partition(";")[0].partition("=")
        return value.strip('"') if key == name else None


class _Closed(Exception):
    """The site closed a connection before it answered: that is its right between two exchanges."""


class _Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.reusable = True

    async def exchange(self, request: bytes) -> Answer:
        try:
            self._writer.write(request)
            await self._writer.drain()
            head = await self._reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise _Closed from error
        first, *lines = head.decode("latin-1").split("\r\n")
        fields = (line.partition(":") for line in lines if line)
        headers = {name.lower(): value.strip() for name, _, value in fields}
        # The site always says how long its answers are; one that does not is not the site.
        body = await self._reader.readexactly(int(headers["content-length"]))
        self.reusable = headers.get("connection", "").lower() != "close"
        return Answer(int(first.split(" ")[1]), headers, body)

    def close(self) -> None:
        self._writer.close()


class HttpClient:
    """Sends requests to ``site`` (its URL) over at most ``connections`` connections at a time."""

    def __init__(self, site: str, connections: int = 12) -> None:
        parts = urlsplit(site)
        self.origin = f"http://{parts.netloc}"
        self._host = parts.hostname or ""
        self._port = parts.port or 80
        self._netloc = parts.netloc
        self._turns = asyncio.Semaphore(connections)
        self._idle: list[_Connection] = []

    async def request(self, method: str, path: str, headers: Mapping[str, str], body: bytes = b"") -> Answer:
        """One exchange. Raises Unreachable."""
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self._netloc}", f"Content-Length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        request = "\r\n".join([*lines, "", ""]).encode("latin-1") + body
        async with self._turns:
            try:
                async with asyncio.timeout(SECONDS):
                    return await self._exchange(request)
            except (_Closed, OSError, asyncio.IncompleteReadError, LookupError, ValueError) as error:
                raise Unreachable(f"{type(error).__name__}: {error}") from error

    def close(self) -> None:
        """Close the connections that are idle."""
        while self._idle:
            self._idle.pop().close()

    async def _exchange(self, request: bytes) -> Answer:
        while self._idle:
            try:
                return await self._use(self._idle.pop(), request)
            except _Closed:
                continue  # it had grown old; the next one, or a new one, may not have
        return await self._use(_Connection(*await asyncio.open_connection(self._host, self._port)), request)

    async def _use(self, connection: _Connection, request: bytes) -> Answer:
        kept = False
        try:
            answer = await connection.exchange(request)
            if connection.reusable:
                self._idle.append(connection)
                kept = True
            return answer
        finally:
            if not kept:
                connection.close()
