"""Webhooks: other programs hear of kicks, blocks and revocations, to drop refresh tokens and what else they hold.

A kick is an event; blocks, unblocks and revoke_before are staff actions and stand in the audit alone, so both are
read. Each URL is told in order, at least once, whatever is restarted: Redis's streams are the queue, and what is kept
here is a position for each URL, which moves when its receiver has said 2xx. A URL that fails delays no other.

The body, signed as ``signing`` says::

    {
        "id": "7f0c…",
        "type": "kicked",
        "at": "2026-11-20T17:05:23.000+00:00",
        "uid": "ada",
        "session_id": "…",
        "by": "sam",
        "reason": "stolen phone",
        "ticket": "T-1",
        "message": "Please sign in again.",
    }

``type`` is kicked (one for each session), blocked, unblocked, revoked (all sessions that began before the moment that
``outcome`` names, mostly ``at``; each is told as kicked too, when it is drained) or gap: events were lost to the
stream's cap, so look at what you hold.
"""

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
from typing import Any, Final, Self
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from presence_core.client import Presence
from presence_core.errors import InvalidArgument, PresenceError
from presence_core.forked import renew_in_child
from presence_core.web.feed import Delivery, Feed, Place
from presence_core.web.rules import number
from presence_core.web.signing import DELIVERY_ID, SIGNATURE, secrets_of, sign

KINDS: Final = ("kicked", "blocked", "unblocked", "revoked", "gap")

log = logging.getLogger("presence_core")


class Webhooks:
    """``with Webhooks(presence, [url], secret, position="/var/lib/site/webhooks"): …``

    presence: a Presence. urls: of receivers, http or https; keep http for hosts of your own network. secret: at least
    16 bytes of text; two while it is being changed. position: a directory in which a small file per URL says how far it
    was told; a URL that is new begins now. kinds: which types to tell.

    Of all processes that name the same directory one tells a URL. The others stand by, and one of them goes on from its
    place within a second or two of its end, be that a kill. Machines without a directory in common know nothing of each
    other and would each tell everything, with the same ids: run it on one of them.

    What is not answered with 2xx within ``timeout`` seconds (0.05…60) is tried again, after 1 s, 2 s, 4 s … up to
    ``max_wait`` (0.01…3600); after ``give_up`` seconds (1…604,800) it is dropped, logged and counted in ``dropped``.
    interval: seconds between two looks for something to tell, 0.01…60. Redirects are not followed. At most 100
    deliveries a URL are held in memory.
    """

    def __init__(
        self,
        presence: Presence,
        urls: Iterable[str],
        secret: str | Iterable[str],
        *,
        position: str | PathLike[str],
        kinds: Iterable[str] = KINDS,
        timeout: float = 10.0,
        max_wait: float = 300.0,
        give_up: float = 86_400.0,
        interval: float = 0.5,
    ) -> None:
        if not isinstance(presence, Presence):
            raise InvalidArgument("presence", "must be a Presence")
        targets = [] if isinstance(urls, str) or not isinstance(urls, Iterable) else list(urls)
        if not 1 <= len(targets) <= 100 or not all(_is_http(url) for url in targets):
            raise InvalidArgument("urls", "must be a list of 1 to 100 http or https URLs")
        chosen = () if isinstance(kinds, str) or not isinstance(kinds, Iterable) else tuple(kinds)
        if not chosen or not all(one in KINDS for one in chosen):
            raise InvalidArgument("kinds", "must be some of " + ", ".join(KINDS))
        if not isinstance(position, str | PathLike) or not str(position):
            raise InvalidArgument("position", "must be a directory")
        secrets_of(secret)
        self._presence = presence
        self._secret = secret if isinstance(secret, str) else tuple(secret)
        self._timeout = number("timeout", timeout, 0.05, 60)
        self._max_wait = number("max_wait", max_wait, 0.01, 3600)
        self._give_up = number("give_up", give_up, 1, 604_800)
        self._interval = number("interval", interval, 0.01, 60)
        self._kinds = frozenset(chosen)
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._opener = build_opener(_NoRedirects)
        self.delivered = 0  #: answered with 2xx
        self.retried = 0  #: tries that failed
        self.dropped = 0  #: given up
        directory = Path(position)
        self._places = {url: Place(directory, url) for url in targets}
        self._threads: list[threading.Thread] = []
        renew_in_child(self, Webhooks._start_anew)

    def start(self) -> None:
        """Begin to tell, from where each URL was left, or stand by. Raises Unavailable when Redis cannot be asked where
        now is, RuntimeError when a file is no position."""
        if self._threads:
            return
        self._stopping.clear()
        try:
            for place in self._places.values():
                self._take(place)
        except BaseException:
            for place in self._places.values():
                place.release()
            raise
        for number_, (url, place) in enumerate(self._places.items()):
            thread = threading.Thread(
                target=self._tell_forever, args=(url, place), name=f"presence-webhooks-{number_}", daemon=True
            )
            self._threads.append(thread)
            thread.start()

    def close(self) -> None:
        """Stop; a delivery under way is finished or tried again next time. What waits is told after the next start."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(self._timeout + 5)
        self._threads = []
        for place in self._places.values():
            place.release()

    def _take(self, place: Place) -> bool:
        """Become the one that tells this URL. False: another process is."""
        if place.is_ours:
            return True
        if not place.take():
            return False
        try:
            if place.is_new:
                Feed.begin(self._presence, place)
        except BaseException:
            place.release()
            raise
        return True

    def _start_anew(self) -> None:
        """In a forked child: no thread is here, and its parent's hold must end with its parent."""
        self._threads, self._stopping, self._lock = [], threading.Event(), threading.Lock()
        for place in self._places.values():
            place.release()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # -- one thread for each URL ---------------------------------------------------------------------------------------

    def _tell_forever(self, url: str, place: Place) -> None:
        feed = Feed(self._presence, place, self._kinds)
        while not self._stopping.is_set():
            try:
                if not self._take(place):
                    self._stopping.wait(max(1.0, self._interval))
                    continue
                idle = not self._tell(url, place, feed)
            except PresenceError as error:
                log.warning("webhooks wait: %s", error)
                self._stopping.wait(max(1.0, self._interval))
            except Exception:  # a full disk, or a mistake of ours: it is told again, not lost
                log.exception("webhooks for %s were interrupted", _host(url))
                self._stopping.wait(max(5.0, self._interval))
            else:
                if idle:
                    self._stopping.wait(self._interval)

    def _tell(self, url: str, place: Place, feed: Feed) -> bool:
        """Tell one batch; whether there was anything."""
        batch = feed.read()
        for delivery in batch:
            if delivery.body is not None and not self._deliver(url, delivery):
                break  # stopping: the place stays where it is
            place.move(delivery)
        return bool(batch)

    def _deliver(self, url: str, delivery: Delivery) -> bool:
        """Tell one until it is told, or given up; False when we are stopped before."""
        assert delivery.body is not None
        content = json.dumps(delivery.body, ensure_ascii=False).encode()
        begin, wait = time.monotonic(), min(1.0, self._max_wait)
        while True:
            why = self._post(url, str(delivery.body["id"]), content)
            if why is None:
                self._count("delivered")
                return True
            self._count("retried")
            if time.monotonic() - begin >= self._give_up:
                self._count("dropped")
                log.error("webhook %s was given up at %s: %s", delivery.body["id"], _host(url), why)
                return True
            log.warning("webhook %s waits for %s: %s", delivery.body["id"], _host(url), why)
            if self._stopping.wait(wait * random.uniform(0.75, 1.25)):
                return False
            wait = min(wait * 2, self._max_wait)

    def _post(self, url: str, delivery_id: str, content: bytes) -> str | None:
        """None when it was taken, else why not: without the URL, which may hold a secret of the receiver's."""
        request = Request(url, content, method="POST")
        request.add_header("Content-Type", "application/json")
        request.add_header("User-Agent", "presence-core")
        request.add_header(DELIVERY_ID, delivery_id)
        request.add_header(SIGNATURE, sign(self._secret, content))
        try:
            with self._opener.open(request, timeout=self._timeout) as answer:
                answer.read(1024)
                return None if 200 <= answer.status < 300 else f"status {answer.status}"
        except HTTPError as refused:
            with refused:
                return f"status {refused.code}"
        except (OSError, HTTPException, ValueError) as error:
            return type(getattr(error, "reason", error)).__name__

    def _count(self, name: str) -> None:
        with self._lock:
            setattr(self, name, getattr(self, name) + 1)


class _NoRedirects(HTTPRedirectHandler):
    """A redirect is a refusal: it would carry the body, without a secret's consent, to another host."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _is_http(url: object) -> bool:
    try:
        parts = urlsplit(url) if isinstance(url, str) else None
        return parts is not None and parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _host(url: str) -> str:
    parts = urlsplit(url)
    return parts.hostname or ""
