"""Metrics for Prometheus: of a site's process, of a worker and of the HTTP service. Needs ``prometheus_client``.

docs/run/logging.md lists them. A metric has the same name wherever it is exported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from prometheus_client import REGISTRY, CollectorRegistry, Histogram
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from presence_core.client import AsyncPresence, Presence
from presence_core.client.internal import Observer, operation_name
from presence_core.errors import InvalidArgument, PresenceError
from presence_core.models import Counts, WorkerStatus
from presence_core.worker import Worker

Tally = Mapping[str, int] | Callable[[], Mapping[str, int]]

BUCKETS: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)


def export_metrics(
    *,
    presence: Presence | AsyncPresence | None = None,
    tally: Tally | None = None,
    worker: Worker | None = None,
    registry: CollectorRegistry = REGISTRY,
) -> None:
    """Export metrics with a registry of ``prometheus_client``, by default its global one. Once for each registry.

    presence: the durations of its operations. Of a Presence also the counts and the state of the worker, which each
    scrape reads in two round trips; an AsyncPresence cannot, since a scrape does not wait for an event loop. tally: the
    requests of a middleware by outcome: the Counter that it has, or a function that returns the counts. worker: whether
    it leads, and whether its duties fail. Raises InvalidArgument.
    """
    if presence is not None and not isinstance(presence, Presence | AsyncPresence):
        raise InvalidArgument("presence", "must be a Presence or an AsyncPresence", "wrong_type")
    if tally is not None and not isinstance(tally, Mapping) and not callable(tally):
        raise InvalidArgument("tally", "must be a Counter, or a function that returns the counts", "wrong_type")
    if worker is not None and not isinstance(worker, Worker):
        raise InvalidArgument("worker", "must be a Worker", "wrong_type")
    try:
        registry.register(_ProcessMetrics(presence if isinstance(presence, Presence) else None, tally, worker))
        if presence is not None:
            presence.internal.observers.append(observe_operations(registry))
    except ValueError:
        raise InvalidArgument("registry", "has these metrics already: call export_metrics once") from None


def observe_operations(registry: CollectorRegistry) -> Observer:
    """An observer of a client that measures how long its operations take."""
    histogram = Histogram(
        "presence_redis_seconds",
        "Time of an operation, from its first call of Redis to the last reply.",
        ("operation",),
        buckets=BUCKETS,
        registry=registry,
    )
    return lambda operation, seconds: histogram.labels(operation_name(operation)).observe(seconds)


class _ProcessMetrics:
    """What a scrape of this process reads."""

    def __init__(self, presence: Presence | None, tally: Tally | None, worker: Worker | None) -> None:
        self._presence = presence
        self._tally = tally
        self._worker = worker

    def describe(self) -> Iterable[Metric]:
        """Enough for the registry to refuse a second collector of the same kind, without asking Redis."""
        if self._presence is not None:
            yield _up(is_up=True)
        if self._tally is not None:
            yield _requests({})
        if self._worker is not None:
            yield from _own_worker_metrics(self._worker)

    def collect(self) -> Iterable[Metric]:
        if self._presence is not None:
            try:
                counts, status = self._presence.counts(), self._presence.worker_status()
            except PresenceError:
                yield from namespace_metrics(None, None)
            else:
                yield from namespace_metrics(counts, status)
        if self._tally is not None:
            yield _requests(self._tally() if callable(self._tally) else self._tally)
        if self._worker is not None:
            yield from _own_worker_metrics(self._worker)


def _requests(tally: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily("presence_requests", "Requests that the middleware checked.", labels=["state"])
    for state, number in dict(tally).items():
        family.add_metric([state], number)
    return family


def _own_worker_metrics(worker: Worker) -> Iterable[Metric]:
    yield GaugeMetricFamily("presence_worker_leads", "Whether this worker does the work now.", int(worker.leads))
    failing = "Whether a duty of this worker failed in its last turn."
    yield GaugeMetricFamily("presence_worker_failing", failing, int(worker.last_error is not None))


# -- the namespace ----------------------------------------------------------------------------------------------------


def namespace_metrics(counts: Counts | None, worker: WorkerStatus | None) -> Iterable[Metric]:
    """What Redis reports, as of one scrape. Without ``counts`` Redis is away."""
    yield _up(is_up=counts is not None)
    if counts is not None:
        yield from _count_metrics(counts)
    if worker is not None:
        yield from _worker_metrics(worker)


def _up(*, is_up: bool) -> Metric:
    return GaugeMetricFamily("presence_up", "Whether Redis answered this scrape.", int(is_up))


def _count_metrics(counts: Counts) -> Iterable[Metric]:
    yield GaugeMetricFamily("presence_users", "Users online.", counts.users)
    yield GaugeMetricFamily("presence_sessions", "Live sessions.", counts.sessions)
    logins = CounterMetricFamily("presence_logins", "Sessions that have begun.")
    ends = CounterMetricFamily("presence_ends", "Sessions that have ended.", labels=["reason"])
    for kind, number in counts.totals.items():
        if kind == "login":
            logins.add_metric([], number)
        else:
            ends.add_metric([kind], number + counts.waiting.get(kind, 0))
    odd = CounterMetricFamily("presence_odd_logins", "Logins with something unusual, by kind.", labels=["kind"])
    for kind, number in counts.odd_logins.items():
        odd.add_metric([kind], number)
    failed = CounterMetricFamily("presence_failed_logins", "Sign-ins that failed.")
    failed.add_metric([], counts.failed_logins)
    yield from (logins, ends, odd, failed)


def _worker_metrics(worker: WorkerStatus) -> Iterable[Metric]:
    lag = "Age of the oldest overdue session when the last sweep began."
    yield GaugeMetricFamily("presence_sweep_lag_seconds", lag, worker.lag_seconds)
    alive = "Whether a worker leads and has reported recently."
    yield GaugeMetricFamily("presence_worker_alive", alive, int(worker.alive))
    paused = "Whether sweeping is paused because Redis's clock has jumped."
    yield GaugeMetricFamily("presence_worker_paused", paused, int(bool(worker.paused)))
    if worker.last_run:
        at = worker.last_run.timestamp()
        yield GaugeMetricFamily("presence_last_sweep_timestamp_seconds", "When a sweep last succeeded.", at)
