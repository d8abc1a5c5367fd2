"""OpenTelemetry in the HTTP service: a span and a measurement for each request, without what callers sent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any, cast

import httpx
import pytest
from opentelemetry.trace import SpanKind, StatusCode

from presence_core import AsyncPresence
from presence_core.web.service.app import create_app
from tests.conftest import Bed, on
from tests.contract.connections.test_otel import Sdk
from tests.web.service.process import ROOT, Held, Service

MARK = "quillfeather"
TRACE = "0af7651916cd43dd8448eb211c80319c"


def traced(bed: Bed) -> tuple[Service, Sdk]:
    sdk, p = Sdk(), bed.connect()
    presence = cast(AsyncPresence, cast(Any, p)._target)
    app = bed.loop.call(lambda: create_app(presence, keys=Held(), telemetry=sdk.add_to(p)))
    return Service(bed, p, app), sdk


@on("valkey-async")
def test_a_request_continues_the_trace_of_its_caller_and_holds_the_operation(bed: Bed) -> None:
    service, sdk = traced(bed)
    headers = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}
    assert service.ask("GET", f"/v1/sessions?uid={MARK}&{MARK}=1", headers=headers).status_code == 422
    assert service.ask("GET", f"/v1/users/{MARK}/sessions?x={MARK}", headers=headers).status_code == 200
    request, operation = sdk.spans[-1], sdk.spans[-2]
    assert (request.name, request.kind) == ("GET /v1/users/{uid}/sessions", SpanKind.SERVER)
    assert dict(request.attributes or {}) == {
        "http.request.method": "GET", "http.route": "/v1/users/{uid}/sessions", "http.response.status_code": 200,
        "url.scheme": "http", "network.protocol.version": "1.1",
    }  # fmt: skip
    assert request.context is not None
    assert operation.parent is not None
    assert f"{request.context.trace_id:032x}" == TRACE
    assert (operation.kind, operation.parent.span_id) == (SpanKind.CLIENT, request.context.span_id)
    durations = {point.attributes["http.response.status_code"]: point.count
                 for point in sdk.points("http.server.request.duration")}  # fmt: skip
    assert durations == {422: 1, 200: 1}
    assert MARK not in sdk.everything()


@on("valkey-async")
def test_a_request_without_a_route_has_no_name_of_its_callers_making(bed: Bed) -> None:
    service, sdk = traced(bed)
    assert service.ask("GET", f"/{MARK}").status_code == 404
    assert service.ask("BREW", "/v1/counts").status_code == 405
    assert [span.name for span in sdk.spans] == ["HTTP", "HTTP /v1/counts"]
    assert "BREW" not in sdk.everything()
    assert MARK not in sdk.everything()


@on("valkey-async")
def test_an_error_of_the_service_is_an_error_of_the_span(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    service, sdk = traced(bed)

    async def fails() -> None:
        raise RuntimeError(MARK)

    monkeypatch.setattr(service.app.state.presence, "counts", fails)
    assert service.ask("GET", "/v1/counts").status_code == 500
    span = sdk.spans[-1]
    assert span.status.status_code == StatusCode.ERROR
    assert (span.attributes or {})["error.type"] == "500"
    assert MARK not in sdk.everything()


WORKER = [sys.executable, "-m", "presence_core.cli", "worker"]


def environ(bed: Bed, value: str) -> dict[str, str]:
    return os.environ | {"PRESENCE_REDIS_URL": bed.url, "PRESENCE_NAMESPACE": bed.namespace, "PRESENCE_OTEL": value}


@on("valkey-sync")
def test_a_wrong_value_of_the_variable_is_one_sentence(bed: Bed) -> None:
    done = subprocess.run(WORKER, cwd=ROOT, env=environ(bed, "maybe"), capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (2, "PRESENCE_OTEL must be on or off.\n")


@on("valkey-sync")
def test_a_service_without_an_sdk_says_so_and_works(bed: Bed) -> None:
    process = subprocess.Popen(WORKER, cwd=ROOT, env=environ(bed, "on"), stderr=subprocess.PIPE, text=True)
    assert process.stderr
    try:
        lines = []
        for line in process.stderr:
            lines.append(line)
            if line.endswith(" leads\n"):
                break
        assert sum("PRESENCE_OTEL is on, but this process has no SDK" in line for line in lines) == 1
    finally:
        process.terminate()
        code = process.wait(30)
        process.stderr.close()
    assert code == 0


SITE = """
import sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
from presence_core import cli

trace.set_tracer_provider(TracerProvider())
exporter = ConsoleSpanExporter(out=sys.stderr, formatter=lambda span: span.to_json(indent=None) + "\\n")
trace.get_tracer_provider().add_span_processor(SimpleSpanProcessor(exporter))
sys.exit(cli.main(sys.argv[1:]))
"""
"""A program that sets up the SDK and then runs a service, as opentelemetry-instrument does."""


@pytest.mark.parametrize(("value", "names"), [("on", {"GET /v1/counts", "counts", "beat"}), ("off", set())])
@on("valkey-sync")
def test_a_service_with_an_sdk_records_its_requests_and_its_worker(bed: Bed, value: str, names: set[str]) -> None:
    command = [sys.executable, "-c", SITE, "serve", "--worker", "--port", "0", "--json"]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=ROOT, env=environ(bed, value), text=True, **pipes) as process:
        assert process.stdout
        assert process.stderr
        try:
            url = json.loads(process.stdout.readline())["url"]
            assert httpx.get(f"{url}/v1/counts", timeout=60).status_code == 200
        finally:
            process.terminate()
            lines = process.stderr.read().splitlines()
            assert process.wait(30) == 0
    spans = [json.loads(line) for line in lines if line.startswith("{")]
    assert {span["name"] for span in spans} & {"GET /v1/counts", "counts", "beat"} == names
