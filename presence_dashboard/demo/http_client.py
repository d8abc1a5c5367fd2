"""An HTTP client for asyncio: a few threads send the requests of many visitors to one site."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from typing import Final
from urllib.parse import urlsplit

SECONDS: Final = 10.0
"""How long the site may be silent."""


class Unreachable(Exception):
    """The site did not answer, or not in HTTP."""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A response."""

    status: int
    set_cookie: str

    def cookie(self, name: str) -> str | None:
        """The new value of a cookie; empty if it is deleted, None if it is not set."""
        key, _, value = self.set_cookie.partition(";")[0].partition("=")
        return value.strip('"') if key == name else None


class HttpClient:
    """Sends requests to ``site`` (its URL), at most ``at_once`` at a time."""

    def __init__(self, site: str, at_once: int = 12) -> None:
        self._netloc = urlsplit(site).netloc
        self.origin = f"http://{self._netloc}"
        self._threads = ThreadPoolExecutor(at_once)

    async def request(self, method: str, path: str, headers: Mapping[str, str], body: bytes = b"") -> HttpResponse:
        """Send a request. Raises Unreachable."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._exchange, method, path, headers, body)

    def close(self) -> None:
        """Send no further requests."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _exchange(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> HttpResponse:
        connection = HTTPConnection(self._netloc, timeout=SECONDS)
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            response.read()
            return HttpResponse(response.status, response.getheader("set-cookie", ""))
        except (OSError, HTTPException) as error:
            raise Unreachable(f"{type(error).__name__}: {error}") from error
        finally:
            connection.close()
