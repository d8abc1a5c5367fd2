"""How the service is: for Prometheus, and for whoever asks whether it lives."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, Histogram, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from starlette.types import Scope

from presence_core.client import AsyncPresence
from presence_core.errors import PresenceError
from presence_core.models import Counts, WorkerStatus
from presence_core.scripts import Op
from presence_core.web.keys import Reader
from presence_core.web.problems import AWAY, RETRY_AFTER, problem
from presence_core.web.routes import Store
from presence_core.web.schemas import answer

T = TypeVar("T")

router = APIRouter(tags=["health"])


class Meters:
    """What one process counts of itself, in a registry of its own."""

    def __init__(self, readers: Callable[[], int]) -> None:
        self.registry = CollectorRegistry()
        self._seconds = Histogram(
            "presence_request_seconds",
            "Time from a request to the end of its answer, but for event streams.",
            ("method", "route", "status"),
            buckets=(0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5),
            registry=self.registry,
        )
        self._scripts = Histogram(
            "presence_redis_seconds",
            "Time of an operation's scripts, from the first call to the last answer.",
            ("operation",),
            buckets=(0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5),
            registry=self.registry,
        )
        listening = Gauge("presence_events_clients", "Readers of GET /v1/events.", registry=self.registry)
        listening.set_function(readers)

    def observe(self, scope: Scope, status: int, seconds: float) -> None:
        """One request is over."""
        route = getattr(scope.get("route"), "path_format", None)
        if route != "/v1/events":
            method = scope["method"] if route and status != 405 else "any"  # what nobody serves may be called anything
            self._seconds.labels(method, route or "none", str(status)).observe(seconds)

    def ran(self, op: object, seconds: float) -> None:
        """An operation is over, be it well."""
        name = getattr(op, "__qualname__", "unknown").partition(".")[0].lstrip("_")
        self._scripts.labels(name).observe(seconds)


class Timed(AsyncPresence):
    """A client by another name: all is the other's, but that it says how long each operation took."""

    def __init__(self, presence: AsyncPresence, meters: Meters) -> None:
        self.__dict__.update(vars(presence))
        self._presence = presence
        self._meters = meters

    async def _run(self, op: Op[T]) -> T:
        begun = time.perf_counter()
        try:
            return await self._presence._run(op)  # what goes on behind it ends when that one is closed
        finally:
            self._meters.ran(op, time.perf_counter() - begun)


@dataclass(frozen=True, slots=True)
class _Namespace:
    """What Redis knows, as of one scrape."""

    counts: Counts | None
    worker: WorkerStatus | None

    def collect(self) -> Iterator[Metric]:
        up = GaugeMetricFamily("presence_up", "Whether Redis answered this scrape.")
        up.add_metric([], 0 if self.counts is None else 1)
        yield up
        if self.counts is not None:
            yield GaugeMetricFamily("presence_users", "Users online, as of the last sweep.", self.counts.users)
            yield GaugeMetricFamily("presence_sessions", "Live sessions.", self.counts.sessions)
            logins = CounterMetricFamily("presence_logins", "Sessions that have begun.")
            ends = CounterMetricFamily("presence_ends", "Sessions that have ended.", labels=["reason"])
            for kind, number in self.counts.totals.items():
                if kind == "login":
                    logins.add_metric([], number)
                else:
                    ends.add_metric([kind], number)
            yield logins
            yield ends
        if self.worker is not None:
            lag = "How long the session due the longest had waited when the last sweep began."
            yield GaugeMetricFamily("presence_sweep_lag_seconds", lag, self.worker.lag_seconds)
            alive = "Whether a worker leads and has been heard of lately."
            yield GaugeMetricFamily("presence_worker_alive", alive, int(self.worker.alive))
            if self.worker.last_run:
                at = self.worker.last_run.timestamp()
                yield GaugeMetricFamily("presence_last_sweep_timestamp_seconds", "When a sweep last ended well.", at)


@router.get("/metrics", dependencies=[Reader], response_class=Response, include_in_schema=False)
async def metrics(request: Request, presence: Store) -> Response:
    """For Prometheus. While Redis is away `presence_up` is 0 and only this process's own numbers are told."""
    meters: Meters = request.app.state.meters
    try:
        known = _Namespace(await presence.counts(), await presence.worker_status())
    except PresenceError:
        known = _Namespace(None, None)
    told = generate_latest(known) + generate_latest(meters.registry)  # only collect() is asked
    return Response(told, media_type=CONTENT_TYPE_LATEST)


@router.head("/healthz", include_in_schema=False)
@router.get("/healthz", response_model=dict[str, str])
async def healthz() -> Response:
    """Whether this process answers."""
    return answer({"status": "ok"})


@router.head("/readyz", include_in_schema=False)
@router.get("/readyz", response_model=dict[str, str | float])
async def readyz(presence: Store) -> Response:
    """Whether Redis answers, too."""
    begun = time.perf_counter()
    try:
        await presence.counts()
    except PresenceError:
        return problem(503, AWAY, RETRY_AFTER, code="unavailable")
    return answer({"status": "ok", "seconds": round(time.perf_counter() - begun, 6)})
