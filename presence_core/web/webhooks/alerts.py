"""The webhook of alerts: a thread sends each alert of the worker."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping
from queue import Full, Queue
from typing import Any, Final, Self
from uuid import uuid4

from presence_core import validation as check
from presence_core.errors import InvalidArgument
from presence_core.fork_safety import renew_in_child
from presence_core.logs import fields
from presence_core.models import Alert, AlertCount, FailureAlert, PersonAlert
from presence_core.web.webhooks.signed_post import URL_RULE, SignedPost, host_of_url, is_http

MAX_LIMIT: Final = 1_000_000_000

MAX_WAITING: Final = 100
"""Alerts in memory."""

log = logging.getLogger(__name__)


class AlertWebhook:
    """``with AlertWebhook(url, secret, ends=500) as alerts, Worker(presence, alerts=alerts): …``

    url, secret: as those of ``Webhooks``. ends, logins, failed (sign-ins): the limits per minute, 1…1,000,000,000; a
    count without a limit is not checked. An alert is sent when a count goes above its limit, and one when it is back at
    the limit or below. people: send one also for each login of a person on the shared watch list
    (``save_item("watch", uid, …, shared=True)``), within about 10 seconds; not for sessions of staff on behalf of them.
    failed_of_person: send one when more sign-ins of a person have failed since their last login, as ``login_failed``
    reported them; at most once a day. failed_of_network: when more from a network have failed within an hour; at most
    once in it.

    An alert that is not answered with 2xx within ``timeout`` seconds (0.05…60) is tried again after 1 s, 2 s, 4 s, … up
    to ``max_wait`` (0.01…3600). After ``give_up`` seconds (1…604,800) it is dropped, logged and counted in ``dropped``.
    Alerts are sent in order. Those in memory are lost if the process is killed; ``close`` tries each once more.
    """

    def __init__(
        self,
        url: str,
        secret: str | Iterable[str],
        *,
        ends: int | None = None,
        logins: int | None = None,
        people: bool = False,
        failed: int | None = None,
        failed_of_person: int | None = None,
        failed_of_network: int | None = None,
        timeout: float = 10.0,
        max_wait: float = 60.0,
        give_up: float = 600.0,
    ) -> None:
        if not is_http(url):
            raise InvalidArgument("url", f"must be a URL: {URL_RULE}")
        given: dict[AlertCount, int | None] = {"ends": ends, "logins": logins, "failed": failed}
        self.limits: Mapping[AlertCount, int] = {
            count: check.whole(count, limit, 1, MAX_LIMIT) for count, limit in given.items() if limit is not None
        }
        if not isinstance(people, bool):
            raise InvalidArgument("people", "must be True or False", "wrong_type")
        self.people = people  #: whether logins of the people on the shared watch list are sent
        for name, limit in (("failed_of_person", failed_of_person), ("failed_of_network", failed_of_network)):
            if limit is not None:
                check.whole(name, limit, 1, MAX_LIMIT)
        self.failed_of_person, self.failed_of_network = failed_of_person, failed_of_network
        if not self.limits and not people and failed_of_person is failed_of_network is None:
            raise InvalidArgument("ends", "or another limit must be given, or people", "required")
        self._url = url
        self._post = SignedPost(secret, timeout=timeout, max_wait=max_wait, give_up=give_up)
        self._timeout = timeout
        self._renew()
        renew_in_child(self, AlertWebhook._renew)

    def _renew(self) -> None:
        """Also in a forked child: the parent sends what waits."""
        self._waiting: Queue[dict[str, Any] | None] = Queue(MAX_WAITING)
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def delivered(self) -> int:
        """Alerts that were answered with 2xx."""
        return self._post.delivered

    @property
    def dropped(self) -> int:
        """Alerts that were given up."""
        return self._post.dropped

    def send(self, alert: Alert | PersonAlert | FailureAlert) -> None:
        """Send an alert, without waiting for it. Starts the thread if it does not run."""
        try:
            self._waiting.put_nowait(_body(alert))
        except Full:
            host = host_of_url(self._url)
            extra = fields(event="alert_dropped", host=host)
            log.warning("an alert to %s was dropped: %d others wait", host, MAX_WAITING, extra=extra)
        if self._thread is None or not self._thread.is_alive():
            self._stopping.clear()
            self._thread = threading.Thread(target=self._serve, name="presence-alerts", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Stop. Each alert that waits is tried once more."""
        if self._thread is not None:
            self._stopping.set()
            self._waiting.put(None)
            self._thread.join(self._timeout + 5)
            self._thread = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _serve(self) -> None:
        while (body := self._waiting.get()) is not None:
            self._post.deliver(self._url, body, self._stopping.wait)


def _body(alert: Alert | PersonAlert | FailureAlert) -> dict[str, Any]:
    body: dict[str, Any] = {
        "id": uuid4().hex,
        "type": alert.type,
        "at": alert.at.isoformat(timespec="milliseconds"),
        "namespace": alert.namespace,
    }
    if isinstance(alert, PersonAlert):
        body |= {"uid": alert.uid, "session_id": alert.session_id}
    elif isinstance(alert, FailureAlert):
        body |= {"uid": alert.uid, "network": alert.network, "count": alert.count, "limit": alert.limit}
    else:
        body |= {"count": alert.count, "per_minute": alert.per_minute, "limit": alert.limit}
    return body | {"text": alert.sentence}
