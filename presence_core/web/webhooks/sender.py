"""Webhooks: one thread for each URL sends its deliveries, with retries."""

from __future__ import annotations

import json
import logging
import random
import threading
import time
from collections.abc import Iterable
from http.client import HTTPException
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, get_args
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from presence_core import validation as check
from presence_core.client import Presence
from presence_core.errors import InvalidArgument, PresenceError
from presence_core.fork_safety import renew_in_child
from presence_core.web.webhooks.deliveries import DeliveryReader, Kind, begin_now
from presence_core.web.webhooks.position import Delivery, Position
from presence_core.web.webhooks.signing import DELIVERY_ID, SIGNATURE, check_secrets, sign

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

log = logging.getLogger("presence_core")


class Webhooks:
    """``with Webhooks(presence, [url], secret, position="/var/lib/site/webhooks"): …``

    presence: a Presence. urls: http or https; use http only for hosts of your own network. secret: text of at least 16
    bytes, or two while you replace it. position: a directory, in which a small file for each URL holds its position. A
    new URL begins now. kinds: the types to send.

    Of all processes that use the same directory, one serves a URL. If it ends, even by a kill, another one continues
    from its position within one or two seconds. Machines that share no directory do not know of each other, and each
    would send everything with the same ids: run it on one of them.

    A delivery that is not answered with 2xx within ``timeout`` seconds (0.05…60) is tried again after 1 s, 2 s, 4 s, …
    up to ``max_wait`` (0.01…3600). After ``give_up`` seconds (1…604,800) it is dropped, logged and counted in
    ``dropped``. interval: seconds between two reads if nothing is new, 0.01…60. Redirects are not followed. At most 100
    deliveries for each URL are in memory.
    """

    def __init__(
        self,
        presence: Presence,
        urls: Iterable[str],
        secret: str | Iterable[str],
        *,
        position: str | PathLike[str],
        kinds: Iterable[Kind] = KINDS,
        timeout: float = 10.0,
        max_wait: float = 300.0,
        give_up: float = 86_400.0,
        interval: float = 0.5,
    ) -> None:
        if not isinstance(presence, Presence):
            raise InvalidArgument("presence", "must be a Presence")
        targets = _check_urls(urls)
        self._kinds = _check_kinds(kinds)
        if not isinstance(position, str | PathLike) or not str(position):
            raise InvalidArgument("position", "must be a directory")
        check_secrets(secret)
        self._presence = presence
        self._secret = secret if isinstance(secret, str) else tuple(secret)
        self._timeout = check.duration("timeout", timeout, 0.05, 60)
        self._max_wait = check.duration("max_wait", max_wait, 0.01, 3600)
        self._give_up = check.duration("give_up", give_up, 1, 604_800)
        self._interval = check.duration("interval", interval, 0.01, 60)
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._opener = build_opener(_NoRedirects)
        self.delivered = 0  #: deliveries that were answered with 2xx
        self.retried = 0  #: tries that failed
        self.dropped = 0  #: deliveries that were given up
        self._positions = {url: Position(Path(position), url) for url in targets}
        self._threads: list[threading.Thread] = []
        renew_in_child(self, Webhooks._reset_in_child)

    def start(self) -> None:
        """Send from each URL's position on, or stand by while another process does.

        Raises Unavailable if a new URL's position cannot be read from Redis, and RuntimeError if a file in the
        directory is not a position.
        """
        if self._threads:
            return
        self._stopping.clear()
        try:
            for position in self._positions.values():
                self._take(position)
        except BaseException:
            for position in self._positions.values():
                position.release()
            raise
        for index, (url, position) in enumerate(self._positions.items()):
            thread = threading.Thread(
                target=self._serve, args=(url, position), name=f"presence-webhooks-{index}", daemon=True
            )
            self._threads.append(thread)
            thread.start()

    def close(self) -> None:
        """Stop. A delivery under way is finished, or tried again after the next start, as all that waits."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(self._timeout + 5)
        self._threads = []
        for position in self._positions.values():
            position.release()

    def _take(self, position: Position) -> bool:
        """Become the process that serves this URL. False: another process does."""
        if position.is_ours:
            return True
        if not position.take():
            return False
        try:
            if position.is_new:
                begin_now(self._presence, position)
        except BaseException:
            position.release()
            raise
        return True

    def _reset_in_child(self) -> None:
        """A forked child has none of the threads, and must not hold its parent's locks."""
        self._threads, self._stopping, self._lock = [], threading.Event(), threading.Lock()
        for position in self._positions.values():
            position.release()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # -- one thread for each URL ---------------------------------------------------------------------------------------

    def _serve(self, url: str, position: Position) -> None:
        reader = DeliveryReader(self._presence, position, self._kinds)
        while not self._stopping.is_set():
            try:
                if not self._take(position):
                    self._stopping.wait(max(1.0, self._interval))
                    continue
                had_deliveries = self._send_batch(url, position, reader)
            except PresenceError as error:
                log.warning("webhooks wait for Redis: %s", error)
                self._stopping.wait(max(1.0, self._interval))
            except Exception:  # a full disk or a bug: the position stays, so nothing is lost
                log.exception("webhooks for %s failed, trying again", _host(url))
                self._stopping.wait(max(5.0, self._interval))
            else:
                if not had_deliveries:
                    self._stopping.wait(self._interval)

    def _send_batch(self, url: str, position: Position, reader: DeliveryReader) -> bool:
        """Send one batch. Returns whether there was one."""
        batch = reader.read()
        for delivery in batch:
            if delivery.body is not None and not self._deliver(url, delivery):
                break  # stopping: the position stays before this delivery
            position.move(delivery)
        return bool(batch)

    def _deliver(self, url: str, delivery: Delivery) -> bool:
        """Send one delivery until it is accepted or given up. False: this was stopped before."""
        assert delivery.body is not None
        delivery_id, content = str(delivery.body["id"]), json.dumps(delivery.body, ensure_ascii=False).encode()
        begin, wait = time.monotonic(), min(1.0, self._max_wait)
        while True:
            failure = self._post(url, delivery_id, content)
            if failure is None:
                self._count("delivered")
                return True
            self._count("retried")
            if time.monotonic() - begin >= self._give_up:
                self._count("dropped")
                log.error("webhook %s to %s was dropped: %s", delivery_id, _host(url), failure)
                return True
            log.warning("webhook %s to %s failed, trying again: %s", delivery_id, _host(url), failure)
            if self._stopping.wait(wait * random.uniform(0.75, 1.25)):
                return False
            wait = min(wait * 2, self._max_wait)

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


class _NoRedirects(HTTPRedirectHandler):
    """A redirect counts as a failure: it would send the body to another host."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _check_urls(urls: object) -> list[str]:
    targets = [] if isinstance(urls, str) or not isinstance(urls, Iterable) else list(urls)
    if not 1 <= len(targets) <= 100 or not all(_is_http(url) for url in targets):
        raise InvalidArgument("urls", "must be a list of 1 to 100 http or https URLs")
    return targets


def _check_kinds(kinds: object) -> frozenset[Kind]:
    chosen = () if isinstance(kinds, str) or not isinstance(kinds, Iterable) else tuple(kinds)
    if not chosen or not all(kind in KINDS for kind in chosen):
        raise InvalidArgument("kinds", "must be some of " + ", ".join(KINDS))
    return frozenset(chosen)


def _is_http(url: object) -> bool:
    try:
        parts = urlsplit(url) if isinstance(url, str) else None
        return parts is not None and parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _host(url: str) -> str:
    return urlsplit(url).hostname or ""
