"""The loop of a worker: it leads, or waits to lead, and calls the duties that are due."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, cast

from presence_core import validation as check
from presence_core.client import AsyncPresence, Presence
from presence_core.errors import InvalidArgument, PresenceError
from presence_core.fork_safety import renew_in_child
from presence_core.keyspace import Keyspace
from presence_core.logs import fields
from presence_core.models import SweepReport
from presence_core.operations.maintenance import history, leader
from presence_core.operations.maintenance.alerts import check_alerts, check_people
from presence_core.operations.maintenance.failure_alerts import check_failures
from presence_core.operations.privacy import trim, truncate
from presence_core.operations.search import facets
from presence_core.worker.clock_check import ClockCheck, own_seconds
from presence_core.worker.duties import AlertReceiver, BulkKicks, Duty, IndexRepair, PrivacyRun, TopPeopleRanking

log = logging.getLogger(__name__)

SAMPLE_SECONDS: Final = 10.0
"""The time that one sample covers."""

SWEEP_LIMIT: Final = 10_000
"""Sessions that one sweep ends at most, which takes half a second: then the worker beats and checks the clock again."""


class Worker:
    """Sweeps every ``interval`` seconds, and takes the samples for ``history``.

    ``with Worker(presence): …`` runs it in a daemon thread; ``run()`` runs it in the calling thread until ``stop()``.
    Any number of workers may run, in any process. One leads; the others wait, and one of them takes over about 15
    seconds after its last beat. Correctness does not depend on there being one: each end and each sample counts once.

    If Redis's clock jumps by more than half of ``settings.idle_timeout``, sweeping is paused, so that no session ends
    that only seems to be idle; ``paused`` says so. It goes on when the clock is right again, or when a worker starts
    with ``accept_clock=True``: then the clock counts as right as it is, for whichever worker leads. While sweeping is
    not paused, an answer that a session has expired is final: see ``validate``.

    ``alerts``: an AlertWebhook. After each sample the leader compares the counts of the last minute with its limits,
    and looks for logins of the people on the shared watch list if it asks for them.
    """

    def __init__(
        self,
        presence: Presence,
        *,
        interval: float = 5.0,
        accept_clock: bool = False,
        alerts: AlertReceiver | None = None,
    ) -> None:
        if isinstance(cast(object, presence), AsyncPresence):
            raise InvalidArgument("presence", "must be a Presence: a worker runs in a thread of its own", "wrong_type")
        if not isinstance(accept_clock, bool):
            raise InvalidArgument("accept_clock", "must be True or False", "wrong_type")
        if alerts is not None and not callable(getattr(alerts, "send", None)):
            raise InvalidArgument("alerts", "must be an AlertWebhook", "wrong_type")
        self._interval = float(check.duration("interval", interval, 0.05, 3600))
        self._presence = presence
        self._internal = presence.internal
        self._alerts = alerts
        self._renew()
        renew_in_child(self, Worker._renew)
        self.last_run: datetime | None = None  #: when the last sweep ended without an error
        self.last_report: SweepReport | None = None
        self.last_error: Exception | None = None  #: the first error of the last turn; None if there was none
        self.leads: bool = False  #: whether this worker does the work now
        self.paused: str = ""  #: why it does not sweep, as a sentence; "" if it does

        self._clock = ClockCheck(presence.settings.idle_timeout * 500, accept=accept_clock)
        self._index_repair = IndexRepair(self._internal, self._is_stopping)
        self._truncation = PrivacyRun(self._internal, self._is_stopping, truncate.Truncation)
        self._trimming = PrivacyRun(self._internal, self._is_stopping, trim.Trimming)
        self._ranking = TopPeopleRanking(self._internal, self._is_stopping)
        self._duties: list[Duty] = [
            Duty("clock check", self._check_clocks, while_paused=True),
            Duty("sample", self._sample, while_paused=True),
            Duty("alert check", self._check_alerts, while_paused=True),
            Duty("sweep", self._sweep, every=self._interval),
            Duty("hourly split", self._split, while_paused=True),
            Duty("bulk kick", BulkKicks(self._internal, self._is_stopping).run),
            Duty("index repair", self._index_repair.run, every=10.0),
            Duty("ranking of people", self._ranking.run, every=5.0, while_paused=True),
            Duty("address truncation", self._truncation.run, every=600.0),
            Duty("trimming of sign-in histories", self._trimming.run, every=3600.0),
        ]
        self._failing: dict[str, float] = {}  # duty → since when, monotonic
        self._keys: Keyspace | None = None  # the layout that the duties have begun on

        self._tick = min(self._interval, SAMPLE_SECONDS)
        self._lead_seconds = max(3 * self._tick, 15.0)
        self._report: dict[str, str | int] = {}  # what the next beat stores
        self._redis_ms = 0
        self._last_beat = 0.0
        self._sampled = self._alerts_checked = self._split_hour = -1

    def _renew(self) -> None:
        """Also in a forked child: the parent goes on working, and leads if it did."""
        self.leads = False
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._token = self._internal.context.new_id()
        self._name = f"{socket.gethostname()}:{os.getpid()}"

    # -- running ------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Work until ``stop()``."""
        try:
            while not self._stop.wait(self._turn()):
                pass
        finally:
            self._leave()

    def start(self) -> None:
        """Run in a daemon thread."""
        if self._thread is None or not self._thread.is_alive():
            self._stop.clear()
            self._thread = threading.Thread(target=self.run, name="presence-worker", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End the loop, and its thread if it has one. What is under way ends first; another worker may lead at once."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def __enter__(self) -> Worker:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def _is_stopping(self, seconds: float = 0.0) -> bool:
        return self._stop.wait(seconds)

    def _turn(self) -> float:
        """Call every duty that is due, if this worker leads; return how many seconds to wait for the next turn."""
        errors: list[Exception] = []
        has_more = False
        self._attempt("lead", self._beat, errors)
        self._follow_layout()
        for duty in self._duties:
            if not self.leads or self._stop.is_set():
                break
            if (self.paused and not duty.while_paused) or time.monotonic() < duty.due:
                continue
            duty_has_more = self._attempt(duty.name, duty.run, errors)
            duty.due = time.monotonic() + (0.0 if duty_has_more else duty.every)
            has_more = has_more or duty_has_more
            if time.monotonic() - self._last_beat >= self._lead_seconds / 3:
                self._attempt("lead", self._beat, errors)
        if self.leads and self._report:
            self._attempt("lead", self._beat, errors)
        self.last_error = errors[0] if errors else None
        return 0.0 if has_more else self._seconds_to_wait()

    def _attempt(self, name: str, act: Callable[[], bool | None], errors: list[Exception]) -> bool:
        """Whether there is more to do. An error is logged once, until the act succeeds again."""
        try:
            has_more = bool(act())
        except Exception as error:  # also a mistake in one duty: the others go on
            if name not in self._failing and isinstance(error, PresenceError):
                extra = fields(event="duty_failed", duty=name, error=type(error).__name__)
                log.warning("the %s waits: %s", name, error, extra=extra)
            elif name not in self._failing:
                log.exception("the %s failed", name, extra=fields(event="duty_failed", duty=name))
            errors.append(error)
            self._failing.setdefault(name, time.monotonic())
            if name == "lead":
                self.leads = False
            return False
        if name in self._failing:
            seconds = time.monotonic() - self._failing.pop(name)
            extra = fields(event="duty_restored", duty=name, seconds=round(seconds, 3))
            log.info("the %s works again after %.1f s", name, seconds, extra=extra)
        return has_more

    def _seconds_to_wait(self) -> float:
        """Until the next ten seconds have passed on Redis's clock, or until a duty is due."""
        if not self.leads:
            return self._tick
        now = time.monotonic()
        redis_seconds = self._redis_ms / 1000 + now - self._last_beat
        waits = [duty.due - now for duty in self._duties if duty.every and (duty.while_paused or not self.paused)]
        return max(0.0, min(self._tick, SAMPLE_SECONDS - redis_seconds % SAMPLE_SECONDS + 0.05, *waits))

    def _follow_layout(self) -> None:
        """After a reshard, drop what was begun on the old shards."""
        keys = self._internal.context.cache.keyspace
        if keys is not self._keys:
            self._keys = keys
            self._index_repair.restart()
            self._truncation.restart()
            self._trimming.restart()
            self._ranking.restart()

    # -- the lead, and the clock ---------------------------------------------------------------------------------------

    def _beat(self) -> None:
        """Lead, go on leading, or learn that another worker leads. Compares the clocks."""
        sent = self._clock.last_right | {"paused": self.paused} | self._report
        beat_of_this = leader.beat(
            self._internal.context, self._token, self._name, round(self._lead_seconds * 1000), self._clock.accept, sent
        )
        before = own_seconds() * 1000
        beat = self._internal.run(beat_of_this)
        after = own_seconds() * 1000
        self._last_beat, self._redis_ms = time.monotonic(), beat.now
        if self.leads != beat.leads:
            event = "leads" if beat.leads else "no longer leads"
            log.info("%s %s", self._name, event, extra=fields(event=event, worker=self._name))
        self.leads = beat.leads
        for name, value in sent.items():
            if self._report.get(name) == value:
                del self._report[name]
        self._clock.compare(beat, before, after)
        self._set_paused()

    def _check_clocks(self) -> None:
        self._clock.check_shards(self._internal, round(self._lead_seconds * 1000))
        self._set_paused()

    def _set_paused(self) -> None:
        if self._clock.problem != self.paused:
            self.paused = self._clock.problem
            level, event = (logging.WARNING, "paused") if self.paused else (logging.INFO, "resumed")
            sentence = self.paused or "Redis's clock is right again: sweeping goes on."
            log.log(level, "%s", sentence, extra=fields(event=event))
            self._report["paused"] = self.paused  # sent at the end of this turn

    def _leave(self) -> None:
        try:
            self._internal.run(leader.leave(self._internal.context, self._token))
        except PresenceError:
            pass  # the lead expires
        self.leads = False

    # -- duties that do all at once ------------------------------------------------------------------------------------

    def _sample(self) -> None:
        slot = self._redis_ms // 10_000
        if slot != self._sampled and self._internal.run(history.sample(self._internal.context, self._redis_ms)):
            self._sampled = slot

    def _check_alerts(self) -> None:
        """Once for each sample."""
        slot = self._redis_ms // 10_000
        if self._alerts is None or slot != self._sampled or slot == self._alerts_checked:
            return
        run, ctx = self._internal.run, self._internal.context
        if self._alerts.limits:
            for alert in run(check_alerts(ctx, self._alerts.limits, self._redis_ms)):
                self._alerts.send(alert)
        if getattr(self._alerts, "people", False):  # a receiver of the site's own may lack it
            for login in run(check_people(ctx, self._redis_ms)):
                self._alerts.send(login)
        of_person = getattr(self._alerts, "failed_of_person", None)
        of_network = getattr(self._alerts, "failed_of_network", None)
        if of_person is not None or of_network is not None:
            for failures in run(check_failures(ctx, of_person, of_network, self._redis_ms)):
                self._alerts.send(failures)
        self._alerts_checked = slot

    def _sweep(self) -> bool:
        lag = self._internal.run(leader.lag(self._internal.context, self._redis_ms))
        report = self._presence.sweep(limit=SWEEP_LIMIT)
        self.last_report = report
        self.last_run = datetime.now(UTC)
        self._report |= {"last_run": self._redis_ms, "lag": lag}
        return report.has_more

    def _split(self) -> None:
        """Once an hour, note the sessions per app and per device."""
        hour = self._redis_ms // 3_600_000
        if hour != self._split_hour:
            run, ctx = self._internal.run, self._internal.context
            apps, devices = run(facets.facets(ctx, "app")), run(facets.facets(ctx, "device"))
            run(history.split(ctx, self._redis_ms, apps, devices))
            self._split_hour = hour
