"""OpenTelemetry: a span and a measurement for each operation of a client. Needs the extra ``otel``.

Only the API is used. Your site chooses, configures and shuts down the SDK. No span or measurement has a token, a uid, a
name, an address of a visitor, or the text of an error.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from opentelemetry import metrics, trace
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import SpanKind, StatusCode, TracerProvider

import presence_core
from presence_core.client import AsyncPresence, Presence
from presence_core.client.internal import operation_name
from presence_core.errors import InvalidArgument, LoginRefused, Unavailable
from presence_core.scripts.calls import Op

BUCKETS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0)
"""Seconds; those of the semantic conventions."""


class Telemetry:
    """The tracer and the meter of a client. ``create_app`` of the HTTP service takes it, too."""

    def __init__(
        self,
        presence: Presence | AsyncPresence,
        tracer_provider: TracerProvider | None,
        meter_provider: MeterProvider | None,
    ) -> None:
        version = presence_core.__version__
        self.tracer = trace.get_tracer("presence_core", version, tracer_provider)
        self.meter = metrics.get_meter("presence_core", version, meter_provider)
        self._seconds = self.meter.create_histogram(
            "db.client.operation.duration", "s", "Duration of an operation of the library, with all its round trips.",
            explicit_bucket_boundaries_advisory=BUCKETS,
        )  # fmt: skip
        server = "" if presence.may_fail_over else presence.internal.context.server_of("")
        self._common = {"db.system.name": "redis", **server_attributes(server)}
        self._namespace = presence.settings.namespace

    @contextmanager
    def operation(self, operation: Op[Any]) -> Iterator[None]:
        """The span of an operation, which is current while it runs."""
        name = operation_name(operation)
        attributes: dict[str, Any] = {**self._common, "db.operation.name": name}
        span = self.tracer.start_span(
            name, kind=SpanKind.CLIENT, attributes={**attributes, "presence.namespace": self._namespace}
        )
        # An exception's text may quote an argument: only its class is recorded.
        with trace.use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
            begin = time.perf_counter()
            try:
                yield
            except LoginRefused as refused:  # an answer, not an error
                span.set_attribute("presence.refusal", refused.code)
                raise
            except BaseException as error:
                attributes |= _error_attributes(error)
                span.set_attributes(attributes)
                span.set_status(StatusCode.ERROR)
                raise
            finally:
                self._seconds.record(time.perf_counter() - begin, attributes)


def _error_attributes(error: BaseException) -> dict[str, Any]:
    found: dict[str, Any] = {"error.type": type(error).__name__}
    if isinstance(error, Unavailable):
        found |= server_attributes(error.server)
        if error.code:
            found["db.response.status_code"] = error.code
    return found


def server_attributes(server: str) -> Mapping[str, Any]:
    """The attributes for ``host:port`` or the path of a socket; none for a name of Sentinel."""
    host, _, port = server.rpartition(":")
    if host and port.isdecimal() and " " not in host:
        return {"server.address": host, "server.port": int(port)}
    return {"server.address": server} if server.startswith("/") else {}


def add_telemetry(
    presence: Presence | AsyncPresence,
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
) -> Telemetry:
    """Make a span and a measurement for each operation of this client from now on.

    Without a provider the global one is used; without an SDK nothing is recorded. Cost with an SDK: about 60 µs of the
    processor for an operation, plus its exporter's. A second call replaces the providers.
    """
    if not isinstance(presence, Presence | AsyncPresence):
        raise InvalidArgument("presence", "must be a Presence or an AsyncPresence", "wrong_type")
    telemetry = Telemetry(presence, tracer_provider, meter_provider)
    presence.internal.around = telemetry.operation
    return telemetry
