"""Send a signed body to a URL by HTTP, with retries."""

from __future__ import annotations

import io
import json
import logging
import random
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from http.client import HTTPException, HTTPResponse
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPHandler, HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from presence_core import validation as check
from presence_core.fork_safety import renew_in_child
from presence_core.logs import fields
from presence_core.web.webhooks.signing import DELIVERY_ID, SIGNATURE, check_secrets, sign

FIRST_WAIT: Final = 1.0
"""Seconds before the second try; then twice as long each time."""

log = logging.getLogger(__name__)


class SignedPost:
    """Sends bodies, and counts how that went. Threads may share it."""

    def __init__(self, secret: str | Iterable[str], *, timeout: float, max_wait: float, give_up: float) -> None:
        self._secret = secret if isinstance(secret, str) or not isinstance(secret, Iterable) else tuple(secret)
        check_secrets(self._secret)
        self._timeout = check.duration("timeout", timeout, 0.05, 60)
        self._max_wait = check.duration("max_wait", max_wait, 0.01, 3600)
        self._give_up = check.duration("give_up", give_up, 1, 604_800)
        self._opener = build_opener(_NoRedirects, _Handler)
        self._renew()
        renew_in_child(self, SignedPost._renew)
        self.delivered = 0  #: deliveries that were answered with 2xx
        self.retried = 0  #: tries that failed
        self.dropped = 0  #: deliveries that were given up

    def _renew(self) -> None:
        self._lock = threading.Lock()

    def deliver(self, url: str, body: Mapping[str, Any], wait: Callable[[float], bool]) -> bool:
        """Send one body until it is accepted or given up. ``wait(seconds)`` is True if this must stop; then False is
        returned."""
        delivery_id, content = str(body["id"]), json.dumps(body, ensure_ascii=False).encode()
        begin, pause = time.monotonic(), min(FIRST_WAIT, self._max_wait)
        while True:
            failure = self._post(url, delivery_id, content)
            if failure is None:
                self._count("delivered")
                return True
            self._count("retried")
            if time.monotonic() - begin >= self._give_up:
                self._count("dropped")
                extra = fields(event="webhook_dropped", delivery=delivery_id, host=host_of_url(url))
                log.error("webhook %s to %s was dropped: %s", delivery_id, host_of_url(url), failure, extra=extra)
                return True
            extra = fields(event="webhook_failed", delivery=delivery_id, host=host_of_url(url))
            log.warning(
                "webhook %s to %s failed, trying again: %s", delivery_id, host_of_url(url), failure, extra=extra
            )
            if wait(pause * random.uniform(0.75, 1.25)):
                return False
            pause = min(pause * 2, self._max_wait)

    def _post(self, url: str, delivery_id: str, content: bytes) -> str | None:
        """None if the receiver answered 2xx, else the failure, without the URL: it may hold the receiver's secret."""
        request = Request(url, content, method="POST")
        request.add_header("Content-Type", "application/json")
        request.add_header("User-Agent", "presence-core")
        request.add_header(DELIVERY_ID, delivery_id)
        request.add_header(SIGNATURE, sign(self._secret, content))
        try:
            with self._opener.open(request, timeout=self._timeout) as response:
                response.read(1024)
                return None if 200 <= response.status < 300 else f"status {response.status}"
        except HTTPError as refused:
            with refused:
                return f"status {refused.code}"
        except (OSError, HTTPException, ValueError) as error:
            return type(getattr(error, "reason", error)).__name__

    def _count(self, name: str) -> None:
        with self._lock:
            setattr(self, name, getattr(self, name) + 1)


class _Handler(HTTPSHandler, HTTPHandler):
    """Limits the time of a try. urllib limits that of each read, so that one byte now and then would go on for ever."""

    def do_open(self, http_class: Any, req: Request, **options: Any) -> HTTPResponse:
        end = time.monotonic() + (req.timeout or 0)

        def connect(*args: Any, **options: Any) -> Any:
            connection = http_class(*args, **options)
            connection.response_class = partial(_Response, end)
            return connection

        return super().do_open(connect, req, **options)


class _Response(HTTPResponse):
    """A response that is read until ``end``, a time of ``time.monotonic``."""

    def __init__(self, end: float, sock: socket.socket, *args: Any, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        self.fp = io.BufferedReader(_Limited(self.fp.detach(), sock, end))


class _Limited(io.RawIOBase):
    """What a socket sends, read until ``end``: each read has the time that is left."""

    def __init__(self, source: io.RawIOBase, sock: socket.socket, end: float) -> None:
        self._source, self._sock, self._end = source, sock, end

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._sock.settimeout(left)
        return self._source.readinto(buffer)

    def close(self) -> None:
        self._source.close()
        super().close()


class _NoRedirects(HTTPRedirectHandler):
    """A redirect counts as a failure: it would send the body to another host."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


URL_RULE: Final = "http or https, in ASCII, without user and password"


def is_http(url: object) -> bool:
    """Whether this is a URL as ``URL_RULE`` says. urllib takes a user and a password for a part of the host."""
    if not isinstance(url, str) or not re.fullmatch(r"[!-~]+", url):
        return False
    try:
        parts = urlsplit(url)
        return (
            parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and "@" not in parts.netloc
        )
    except ValueError:
        return False


def host_of_url(url: str) -> str:
    """The host, for the log: the rest of the URL may hold a secret."""
    return urlsplit(url).hostname or ""
