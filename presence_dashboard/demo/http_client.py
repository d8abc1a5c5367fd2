"""A small HTTP/1.1 client for asyncio: a few keep-alive connections to one site, shared by many visitors."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

SECONDS: Final = 10.0
"""How long a request may take."""


class Unreachable(Exception):
    """The site did not answer, or not in HTTP."""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A response."""

    status: int
    headers: Mapping[str, str]  #: names in lower case; of repeated headers the last
    body: bytes

    def cookie(self, name: str) -> str | None:
        """The new value of a cookie; empty if it is deleted, None if it is not set."""
        key, _, value = self.headers.get("set-cookie", "").partition(";")[0].partition("=")
        return value.strip('"') if key == name else None


class _Closed(Exception):
    """The site closed the connection before it answered, which is allowed between two requests."""


class _Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.reusable = True

    async def exchange(self, request: bytes) -> HttpResponse:
        try:
            self._writer.write(request)
            await self._writer.drain()
            head = await self._reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise _Closed from error
        first, *lines = head.decode("latin-1").split("\r\n")
        fields = (line.partition(":") for line in lines if line)
        headers = {name.lower(): value.strip() for name, _, value in fields}
        # The site always sends Content-Length.
        body = await self._reader.readexactly(int(headers["content-length"]))
        self.reusable = headers.get("connection", "").lower() != "close"
        return HttpResponse(int(first.split(" ")[1]), headers, body)

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

    async def request(self, method: str, path: str, headers: Mapping[str, str], body: bytes = b"") -> HttpResponse:
        """Send a request. Raises Unreachable."""
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
        """Close the idle connections."""
        while self._idle:
            self._idle.pop().close()

    async def _exchange(self, request: bytes) -> HttpResponse:
        while self._idle:
            try:
                return await self._use(self._idle.pop(), request)
            except _Closed:
                continue  # the site closed this idle connection: try the next, or a new one
        return await self._use(_Connection(*await asyncio.open_connection(self._host, self._port)), request)

    async def _use(self, connection: _Connection, request: bytes) -> HttpResponse:
        kept = False
        try:
            response = await connection.exchange(request)
            if connection.reusable:
                self._idle.append(connection)
                kept = True
            return response
        finally:
            if not kept:
                connection.close()
