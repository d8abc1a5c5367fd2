"""OpenTelemetry spans and measurements of the service's requests, without paths, queries, addresses and bodies.

FastAPI's own telemetry and the ASGI instrumentation of OpenTelemetry record paths and queries, which have uids.
"""

from __future__ import annotations

import time
from typing import Any, Final

from opentelemetry import propagate, trace
from opentelemetry.trace import SpanKind, StatusCode
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from presence_core.otel import Telemetry
from presence_core.web.service.access_log import method_and_route

BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
"""Seconds; those of the semantic conventions."""


class RequestSpans:
    """ASGI middleware around the whole service."""

    def __init__(self, app: ASGIApp, telemetry: Telemetry) -> None:
        self.app = app
        self._tracer = telemetry.tracer
        self._seconds = telemetry.meter.create_histogram(
            "http.server.request.duration", "s", "Duration of HTTP server requests.",
            explicit_bucket_boundaries_advisory=BUCKETS,
        )  # fmt: skip

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        status = 0

        async def send_noting_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        parent = propagate.extract(Headers(scope=scope))
        span = self._tracer.start_span("HTTP", context=parent, kind=SpanKind.SERVER)
        begin = time.perf_counter()
        try:
            with trace.use_span(span, record_exception=False, set_status_on_exception=False):
                await self.app(scope, receive, send_noting_status)
        finally:
            attributes = _attributes(scope, status)
            span.update_name(_span_name(attributes))
            span.set_attributes(attributes)
            if "error.type" in attributes:
                span.set_status(StatusCode.ERROR)
            if attributes.get("http.route") != "/v1/events":  # a stream: it ends when its reader leaves
                self._seconds.record(time.perf_counter() - begin, attributes)
            span.end()


def _attributes(scope: Scope, status: int) -> dict[str, Any]:
    method, route = method_and_route(scope, status)
    attributes: dict[str, Any] = {
        "http.request.method": "_OTHER" if method == "any" else method,
        "url.scheme": scope.get("scheme", "http"),
        "network.protocol.version": scope.get("http_version", "1.1"),
    }
    if route != "none":
        attributes["http.route"] = route
    if status:
        attributes["http.response.status_code"] = status
    if status == 0 or status >= 500:
        attributes["error.type"] = str(status or "disconnected")
    return attributes


def _span_name(attributes: dict[str, Any]) -> str:
    method, route = attributes["http.request.method"], attributes.get("http.route")
    return " ".join(filter(None, ("HTTP" if method == "_OTHER" else method, route)))
