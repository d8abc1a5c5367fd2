"""Webhooks: one thread for each URL sends its deliveries, with retries."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Final, Self, get_args

from presence_core import validation as check
from presence_core.client import Presence
from presence_core.errors import InvalidArgument, PresenceError
from presence_core.fork_safety import renew_in_child
from presence_core.logs import OutageLog, fields
from presence_core.schema.endings import WebhookKind
from presence_core.web.notices.link import NoticeLink
from presence_core.web.webhooks.deliveries import DeliveryReader, begin_now
from presence_core.web.webhooks.lanes import Lanes, parts_of
from presence_core.web.webhooks.position import Delivery, Position
from presence_core.web.webhooks.signed_post import URL_RULE, SignedPost, host_of_url, is_http

KINDS: Final[tuple[WebhookKind, ...]] = get_args(WebhookKind)

log = logging.getLogger(__name__)


class Webhooks:
    """``with Webhooks(presence, [url], secret, position="/var/lib/site/webhooks"): …``

    presence: a Presence. urls: http or https, in ASCII and without user and password: a key of the receiver belongs in
    the path or the query. Use http only for hosts of your own network. secret: text of at least 16 bytes, or two while
    you replace it. position: a directory, in which a small file for each URL holds its position. A new URL begins now.
    kinds: the types to send.

    Of all processes that use the same directory, one serves a URL. If it ends, even by a kill, another one continues
    from its position within one or two seconds. Machines that share no directory do not know of each other, and each
    would send everything with the same ids: run it on one of them.

    A delivery that is not answered with 2xx within ``timeout`` seconds (0.05…60) is tried again after 1 s, 2 s, 4 s, …
    up to ``max_wait`` (0.01…3600). After ``give_up`` seconds (1…604,800) it is dropped, logged and counted in
    ``dropped``. interval: seconds between two reads if nothing is new, 0.01…60. Redirects are not followed. At most 100
    deliveries for each URL are in memory.

    in_flight: how many deliveries a URL gets at a time, 1…64. Those about one user come in order, and those about all
    users (revoked, gap) after all before them; 1 keeps the order of all. A receiver that takes 20 ms for each gets 8 in
    these 20 ms.

    notice_link: new_device, distant, after_failures and moved have a field ``link``, on which the user answers whether
    it was them: see ``presence_core.web.notices``. It is null for a session of staff on behalf of the user.
    """

    def __init__(
        self,
        presence: Presence,
        urls: Iterable[str],
        secret: str | Iterable[str],
        *,
        position: str | PathLike[str],
        kinds: Iterable[WebhookKind] = KINDS,
        timeout: float = 10.0,
        max_wait: float = 300.0,
        give_up: float = 86_400.0,
        interval: float = 0.5,
        in_flight: int = 8,
        notice_link: NoticeLink | None = None,
    ) -> None:
        if not isinstance(presence, Presence):
            raise InvalidArgument("presence", "must be a Presence", "wrong_type")
        targets = _check_urls(urls)
        self._kinds = _check_kinds(kinds)
        if not isinstance(position, str | PathLike) or not str(position):
            raise InvalidArgument("position", "must be a directory")
        self._post = SignedPost(secret, timeout=timeout, max_wait=max_wait, give_up=give_up)
        if notice_link is not None and not isinstance(notice_link, NoticeLink):
            raise InvalidArgument("notice_link", "must be a NoticeLink", "wrong_type")
        self._presence, self._notice_link = presence, notice_link
        self._interval = check.duration("interval", interval, 0.01, 60)
        self._in_flight = check.whole("in_flight", in_flight, 1, 64)
        self._stopping = threading.Event()
        self._positions = {url: Position(Path(position), url) for url in targets}
        self._threads: list[threading.Thread] = []
        renew_in_child(self, Webhooks._reset_in_child)

    @property
    def delivered(self) -> int:
        """Deliveries that were answered with 2xx."""
        return self._post.delivered

    @property
    def retried(self) -> int:
        """Tries that failed."""
        return self._post.retried

    @property
    def dropped(self) -> int:
        """Deliveries that were given up."""
        return self._post.dropped

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
        """Stop. A delivery under way is finished, within ``timeout``, or tried again after the next start, as all that
        waits."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()  # a thread that still sends must keep its position
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
        self._threads, self._stopping = [], threading.Event()
        for position in self._positions.values():
            position.release()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # -- one thread for each URL ---------------------------------------------------------------------------------------

    def _serve(self, url: str, position: Position) -> None:
        reader = DeliveryReader(self._presence, position, self._kinds, self._notice_link)
        outages = OutageLog(log, "webhooks", "webhooks wait for Redis: %(error)s",
                            "webhooks are read again after %(seconds).1f s")  # fmt: skip
        while not self._stopping.is_set():
            try:
                if not self._take(position):
                    self._stopping.wait(max(1.0, self._interval))
                    continue
                had_deliveries = self._send_batch(url, position, reader)
                outages.worked()
            except PresenceError as error:
                outages.failed(error)
                self._stopping.wait(max(1.0, self._interval))
            except Exception:  # a full disk or a bug: the position stays, so nothing is lost
                host = host_of_url(url)
                log.exception("webhooks for %s failed, trying again", host, extra=fields(host=host))
                self._stopping.wait(max(5.0, self._interval))
            else:
                if not had_deliveries:
                    self._stopping.wait(self._interval)

    def _send_batch(self, url: str, position: Position, reader: DeliveryReader) -> bool:
        """Send one batch. Returns whether there was one."""

        def send(delivery: Delivery) -> bool:
            assert delivery.body is not None
            return not self._stopping.is_set() and self._post.deliver(url, delivery.body, self._stopping.wait)

        batch = reader.read()
        for part in parts_of(batch):
            if not Lanes(part, send).run(self._in_flight, position.move):
                break  # stopping: the position stays before the first delivery that has not arrived
        else:
            position.end_batch()
        return bool(batch)


def _check_urls(urls: object) -> list[str]:
    targets = [] if isinstance(urls, str) or not isinstance(urls, Iterable) else list(urls)
    if not 1 <= len(targets) <= 100 or not all(is_http(url) for url in targets):
        raise InvalidArgument("urls", f"must be a list of 1 to 100 URLs: {URL_RULE}")
    return targets


def _check_kinds(kinds: object) -> frozenset[WebhookKind]:
    chosen = () if isinstance(kinds, str) or not isinstance(kinds, Iterable) else tuple(kinds)
    if not chosen or not all(kind in KINDS for kind in chosen):
        raise InvalidArgument("kinds", "must be some of " + ", ".join(KINDS), "not_a_choice")
    return frozenset(chosen)
