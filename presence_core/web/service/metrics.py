"""Prometheus metrics and health checks of the service."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics_core import Metric
from starlette.types import Scope

from presence_core.errors import PresenceError
from presence_core.models import Counts, WorkerStatus
from presence_core.prometheus import namespace_metrics, observe_operations
from presence_core.web.service.access_log import method_and_route
from presence_core.web.service.authorization import Reader
from presence_core.web.service.json_format import json_response
from presence_core.web.service.problems import AWAY, RETRY_AFTER, problem
from presence_core.web.service.routes import Client

router = APIRouter(tags=["health"])


CallerKind = Literal["user", "visitor", "bot", "no_cookie"]
"""Who calls a site's page."""


class Meters:
    """Measurements of one process, in their own registry."""

    def __init__(self, readers: Callable[[], int]) -> None:
        self.registry = CollectorRegistry()
        self._request_seconds = Histogram(
            "presence_request_seconds",
            "Time from a request to the end of its response, without event streams.",
            ("method", "route", "status"),
            buckets=(0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5),
            registry=self.registry,
        )
        self.observe_operation = observe_operations(self.registry)
        event_readers = Gauge("presence_events_clients", "Readers of GET /v1/events.", registry=self.registry)
        event_readers.set_function(readers)
        self._page_calls = Counter(
            "presence_page_calls", "Calls of /counter and /visit, by caller.", ("caller",), registry=self.registry
        )
        for caller in get_args(CallerKind):
            self._page_calls.labels(caller)  # shown from the start, as 0

    def observe_request(self, scope: Scope, status: int, seconds: float) -> None:
        """Count a request that has ended."""
        method, route = method_and_route(scope, status)
        if route != "/v1/events":
            self._request_seconds.labels(method, route, str(status)).observe(seconds)

    def count_page_call(self, caller: CallerKind) -> None:
        """Count a call of a site's page."""
        self._page_calls.labels(caller).inc()


@dataclass(frozen=True, slots=True)
class _NamespaceMetrics:
    """What Redis reports, as of one scrape. None while Redis is away."""

    counts: Counts | None
    worker: WorkerStatus | None

    def collect(self) -> Iterable[Metric]:
        return namespace_metrics(self.counts, self.worker)


@router.get("/metrics", dependencies=[Reader], response_class=Response, include_in_schema=False)
async def metrics(request: Request, presence: Client) -> Response:
    """Metrics for Prometheus. While Redis is away `presence_up` is 0 and only this process's own metrics follow."""
    meters: Meters = request.app.state.meters
    try:
        namespace = _NamespaceMetrics(await presence.counts(), await presence.worker_status())
    except PresenceError:
        namespace = _NamespaceMetrics(None, None)
    content = generate_latest(namespace) + generate_latest(meters.registry)  # it calls only collect()
    return Response(content, media_type=CONTENT_TYPE_LATEST)


@router.head("/healthz", include_in_schema=False)
@router.get("/healthz", response_model=dict[str, str])
async def healthz() -> Response:
    """Whether this process answers."""
    return json_response({"status": "ok"})


@router.head("/readyz", include_in_schema=False)
@router.get("/readyz", response_model=dict[str, str | float])
async def readyz(presence: Client) -> Response:
    """Whether Redis answers, too."""
    begin = time.perf_counter()
    try:
        await presence.counts()
    except PresenceError:
        return problem(503, AWAY, RETRY_AFTER, code="unavailable")
    return json_response({"status": "ok", "seconds": round(time.perf_counter() - begin, 6)})
