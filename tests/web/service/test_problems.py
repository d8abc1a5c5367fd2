"""Errors of the HTTP service: one sentence that names the field, never echoes request data, and is never 500."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import subprocess
import sys
from typing import Any, get_args
from urllib.parse import urlsplit

import pytest
import uvicorn
from uvicorn.server import ServerState

from presence_core import CorruptData, InvalidCode, OutcomeUnknown, Unavailable
from presence_core.web.service import request_limits
from presence_core.web.service import server as web_server
from presence_core.web.service.problems import problem as problem_of
from tests.conftest import Bed, on
from tests.support.fair_clock import PATIENT, ends
from tests.web.service.process import ROOT, problem, served_on_thread, service

once = on("valkey-async")

SECRET = "sk_live_0123456789abcdefghijklmnopqrstuvwxyz_do_not_tell"


@once
def test_bad_input_is_answered_with_a_sentence_that_names_the_field(bed: Bed) -> None:
    s = service(bed)
    deep: Any = {}
    for _ in range(200):
        deep = {"a": deep}
    cases: list[tuple[str, str, Any, str]] = [
        ("POST", "/v1/sessions", {}, "uid"),
        ("POST", "/v1/sessions", {"uid": ""}, "uid"),
        ("POST", "/v1/sessions", {"uid": 6}, "uid"),
        ("POST", "/v1/sessions", {"uid": None}, "uid"),
        ("POST", "/v1/sessions", {"uid": "a\nb"}, "uid"),
        ("POST", "/v1/sessions", {"uid": "x" * 257}, "uid"),
        ("POST", "/v1/sessions", {"uid": "ada", "idle_timeout": "60"}, "idle_timeout"),
        ("POST", "/v1/sessions", {"uid": "ada", "idle_timeout": 10**30}, "idle_timeout"),
        ("POST", "/v1/sessions", {"uid": "ada", "idle_timeout": True}, "idle_timeout"),
        ("POST", "/v1/sessions", {"uid": "ada", "methods": "pwd"}, "methods"),
        ("POST", "/v1/sessions", {"uid": "ada", "attributes": [1]}, "attributes"),
        ("POST", "/v1/sessions", {"uid": "ada", "attributes": {"a": "x" * 5000}}, "attributes"),
        ("POST", "/v1/sessions", {"uid": "ada", "session_id": "a:b"}, "session_id"),
        ("POST", "/v1/sessions", {"uid": "ada", "admin": True}, "admin"),
        ("POST", "/v1/sessions", [1], "body"),
        ("POST", "/v1/validate", {"token": 5}, "token"),
        ("POST", "/v1/validate", {"token": "x", "touch": "yes"}, "touch"),
        ("POST", "/v1/validate", {}, "token"),
        ("POST", "/v1/validate", {"token": None}, "token"),
        ("POST", "/v1/validate", {"uid": "ada"}, "session_id"),
        ("POST", "/v1/validate", {"session_id": "session-1"}, "uid"),
        ("POST", "/v1/validate", {"uid": "ada", "token": "x"}, "uid"),
        ("POST", "/v1/validate", {"uid": "ada", "session_id": "session-1", "token": "x"}, "uid"),
        ("POST", "/v1/validate", {"uid": "ada", "session_id": "short"}, "session_id"),
        ("POST", "/v1/validate", {"tokens": "x"}, "tokens"),
        ("POST", "/v1/validate", {"tokens": ["x"] * 5}, "tokens"),
        ("POST", "/v1/validate", {"token": "x", "tokens": ["x"]}, "tokens"),
        ("POST", "/v1/heartbeats", {"refs": ["nothing"]}, "ref"),
        ("POST", "/v1/heartbeats", {"refs": "ada:session-1"}, "refs"),
        ("POST", "/v1/kicks", {"uid": "ada"}, "reason"),
        ("POST", "/v1/kicks", {"uid": "ada", "reason": "x", "by": "me"}, "by"),
        ("POST", "/v1/kicks", {"uid": "ada", "reason": " "}, "reason"),
        ("POST", "/v1/kicks", {"uid": "ada", "reason": "x", "keep": ["?"]}, "keep"),
        ("POST", "/v1/jobs", {"filter": {"device": "x"}, "reason": "x", "expected": -1}, "expected"),
        ("POST", "/v1/jobs", {"filter": {"device": "x"}, "reason": "x"}, "expected"),
        ("POST", "/v1/kicks/preview", {"filter": {"logged_in_after": "yesterday"}}, "logged_in_after"),
        ("POST", "/v1/kicks/preview", {"filter": {"device": "x"}, "exclude": ["x"]}, "ref"),
        ("POST", "/v1/revocations", {"reason": "x", "at": "2026-01-01T00:00:00"}, "at"),
        ("POST", "/v1/revocations", {"reason": "x", "at": True}, "at"),
        ("POST", "/v1/revocations", {"reason": "x", "at": "20260131"}, "at"),
        ("POST", "/v1/revocations", {"reason": "x", "at": "1_700_000_000"}, "at"),
        ("POST", "/v1/revocations", {"reason": "x", "at": "١٧٠٠٠٠٠٠٠٠"}, "at"),
        ("PUT", "/v1/users/ada/block", {"reason": "x", "duration": 0}, "duration"),
        ("DELETE", "/v1/users/ada/block", None, "reason"),
        ("GET", "/v1/sessions?limit=0", None, "limit"),
        ("GET", "/v1/sessions?limit=many", None, "limit"),
        ("GET", "/v1/sessions?limit=" + "9" * 5000, None, "limit"),
        ("GET", "/v1/sessions?cursor=nonsense", None, "cursor"),
        ("GET", "/v1/sessions?devise=phone", None, "devise"),
        ("GET", "/v1/sessions?ip=here", None, "ip"),
        ("GET", "/v1/sessions?attribute=tenant", None, "attribute"),
        ("GET", "/v1/sessions?attribute=floor=1&attribute=floor=2", None, "attribute"),
        ("GET", "/v1/sessions?device=phone&device=tablet", None, "device"),
        ("GET", "/v1/audit?by=sam&by=eve", None, "by"),
        ("DELETE", "/v1/users/ada/block?reason=x&reason=y", None, "reason"),
        ("GET", "/v1/sessions?logged_in_after=nan", None, "logged_in_after"),
        ("GET", "/v1/sessions?logged_in_after=99999999999999", None, "logged_in_after"),
        ("GET", "/v1/sessions?uid=%FF", None, ""),
        ("GET", "/v1/users/%FF/sessions", None, "uid"),
        ("GET", "/v1/users/%00/sessions", None, "uid"),
        ("GET", "/v1/users/ada/sessions/x", None, "session_id"),
        ("GET", "/v1/jobs/%2e%2e%2f", None, "job_id"),
        ("GET", "/v1/people", None, "text"),
        ("GET", "/v1/people?text=%20", None, "text"),
        ("GET", "/v1/history", None, "since"),
        ("GET", "/v1/history?since=1700000000&step=7", None, "step"),
        ("GET", "/v1/ended?reason=boredom", None, "reason"),
        ("GET", "/v1/audit?since=2&until=1", None, "since"),
        ("GET", "/v1/facets/name", None, "field"),
        ("GET", "/v1/events?after=xx", None, "after"),
    ]  # fmt: skip
    for method, path, body, field in cases:
        answer = s.ask(method, path, body)
        if not field:  # bytes that are not text may be searched for: no uid contains them
            assert answer.status_code in (200, 422)
            continue
        said = problem(answer, 422)
        assert said["field"] == field, (method, path, body, answer.text)
        assert said["code"] in get_args(InvalidCode), answer.text
    for raw in (
        b"",
        b"{",
        b"\xff",
        b"[" * 60_000,
        b'{"uid": "\\ud800"}',
        b'{"uid": NaN}',
        b'{"uid":' + b"9" * 6000 + b"}",
        json.dumps({"uid": "ada", "attributes": deep}).encode(),
        b'{"uid": "a", "attributes": {"x": 1e999}}',
    ):
        for path in ("/v1/sessions", "/v1/validate", "/v1/kicks"):
            answer = s.ask("POST", path, content=raw, headers={"Content-Type": "application/json"})
            assert answer.status_code in (400, 422)
            problem(answer, answer.status_code)
    problem(s.ask("GET", "/nowhere"), 404)
    problem(s.ask("GET", "/v1/validate"), 405)
    problem(s.ask("PATCH", "/v1/counts"), 405)
    for method, path in (("POST", "/v1/sessions"), ("POST", "/v1/validate"), ("PUT", "/v1/users/ada/block")):
        for kind in ("text/plain", "application/x-www-form-urlencoded", "json", ""):
            said = problem(s.ask(method, path, content=b'{"uid": "ada"}', headers={"Content-Type": kind}), 415)
            assert said["detail"] == "The body must be sent as Content-Type: application/json."
    good = s.ask("POST", "/v1/validate", content=b'{"token": "x"}', headers={"Content-Type": "Application/JSON; a=b"})
    assert good.json()["live"] is False


@once
def test_nothing_that_describes_a_visitor_is_bad_input(bed: Bed) -> None:
    s = service(bed)
    body = {"uid": "ada", "ip": "203.0.113.9:51008", "name": "名" * 100, "device": 5, "app": "",
            "app_version": "v" * 65, "user_agent": ["curl"], "aliases": ["bob@example.com", "", 7]}  # fmt: skip
    answer = s.ask("POST", "/v1/sessions", body)
    assert answer.status_code == 201, answer.text
    session, token = answer.json()["session"], answer.json()["token"]
    assert (session["ip"], session["name"], session["device"]) == ("203.0.113.9", "名" * 85, None)
    assert (session["app_version"], session["user_agent"], session["aliases"]) == ("v" * 64, None, ["bob@example.com"])
    for ip in ("unknown", "", "[2001:db8::9]:443", 5):
        assert s.ask("POST", "/v1/validate", {"token": token, "ip": ip}).json()["live"] is True
    cut = b'{"uid": "eve", "name": "Eve \\ud83d"}'  # as JavaScript's slice cuts an emoji
    answer = s.ask("POST", "/v1/sessions", content=cut, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["session"]["name"]) == (201, "Eve")


@once
def test_a_refused_value_has_a_code_for_programs(bed: Bed) -> None:
    s = service(bed)
    kick = {"uid": "ada", "reason": "x" * 501}
    for method, path, body, field, code in (
        ("POST", "/v1/kicks", kick, "reason", "too_long"),
        ("POST", "/v1/kicks", {"uid": "ada"}, "reason", "required"),
        ("GET", "/v1/sessions?devise=phone", None, "devise", "unknown"),
        ("GET", "/v1/sessions?ip=here", None, "ip", "malformed"),
        ("GET", "/v1/sessions?limit=1001", None, "limit", "out_of_range"),
        ("GET", "/v1/audit?since=2&until=1", None, "since", "wrong_order"),
    ):
        said = problem(s.ask(method, path, body), 422)
        assert (said["field"], said["code"]) == (field, code)


@once
def test_a_method_that_is_not_allowed_gets_the_allowed_ones(bed: Bed) -> None:
    s = service(bed)
    for path, methods in (("/v1/sessions", "GET, POST"), ("/v1/users/a%2Fb/block", "DELETE, GET, PUT"),
                          ("/v1/validate", "POST"), ("/docs", "GET")):  # fmt: skip
        answer = s.ask("PATCH", path)
        problem(answer, 405)
        assert answer.headers["allow"] == methods
    for path in ("/healthz", "/readyz"):
        assert s.ask("HEAD", path).status_code == 200, "balancers ask so"


@once
def test_the_actor_must_be_text(bed: Bed) -> None:
    s = service(bed)
    for actor in (b"", b" ", b"\xff", b"x" * 129, b"a\x01b"):
        answer = s.ask("POST", "/v1/kicks", {"uid": "ada", "reason": "x"}, headers={"X-Actor": actor})
        assert problem(answer, 422)["field"] == "X-Actor", actor


@once
def test_error_responses_never_echo_request_data_and_neither_do_logs(
    bed: Bed, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    logging.getLogger("httpx").setLevel(logging.WARNING)  # the HTTP client of this test
    s = service(bed)
    token = s.p.login("ada").token
    answers = [
        s.ask("POST", "/v1/validate", {"token": token}),
        s.ask("POST", "/v1/validate", {"token": [SECRET]}),
        s.ask("POST", "/v1/validate", {SECRET: 1, "token": SECRET}),
        s.ask("POST", f"/v1/validate?{SECRET}=1", {"token": token, "ip": SECRET}),
        s.ask("POST", "/v1/sessions", {"uid": [SECRET], "attributes": {"a": SECRET}}),
        s.ask("POST", "/v1/sessions", content=SECRET.encode(), headers={"Content-Type": "application/json"}),
        s.ask("GET", f"/v1/sessions?{SECRET}=1&cursor={SECRET}"),
        s.ask("GET", f"/v1/jobs/{SECRET}"),
        s.ask("GET", f"/v1/{SECRET}"),
        s.ask("GET", "/v1/counts", headers={"Authorization": f"Bearer {SECRET}"}),
        s.ask("GET", "/metrics"),
    ]
    said = "".join(answer.text + str(answer.headers) for answer in answers)
    assert SECRET not in said
    assert token not in said
    assert SECRET not in caplog.text
    assert token not in caplog.text


@once
def test_an_outage_of_redis_is_503_with_retry_after(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    s = service(bed)
    target: Any = s.app.state.presence
    for error, status, code in (
        (Unavailable("Redis at secret-host:6379 cannot be reached.", "secret-host:6379"), 503, "unavailable"),
        (OutcomeUnknown("Redis at secret-host:6379 did not answer.", "secret-host:6379"), 503, "outcome_unknown"),
        (CorruptData("secret-host holds a list."), 500, "corrupt"),
    ):

        async def fails(*_: Any, error: Exception = error, **__: Any) -> None:
            raise error

        monkeypatch.setattr(target, "_run", fails)
        for method, path, body in (("GET", "/v1/counts", None), ("POST", "/v1/validate", {"token": "x"}),
                                   ("POST", "/v1/kicks", {"uid": "a", "reason": "x"})):  # fmt: skip
            answer = s.ask(method, path, body)
            assert problem(answer, status)["code"] == code
            assert "secret-host" not in answer.text
            assert ("retry-after" in answer.headers) == (status == 503)
    monkeypatch.setattr(target, "_run", fails)
    assert problem(s.ask("GET", "/readyz"), 503)["code"] == "unavailable"
    assert s.ask("GET", "/healthz").status_code == 200
    assert "presence_up 0.0" in s.ask("GET", "/metrics").text


@once
def test_a_bug_is_500_without_details(
    bed: Bed, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    s = service(bed)

    async def fails(*_: Any) -> None:
        raise ZeroDivisionError(SECRET)

    monkeypatch.setattr(s.app.state.presence, "_run", fails)
    for method, path, body in (("GET", "/v1/counts", None), ("POST", "/v1/validate", {"token": "x"})):
        answer = s.ask(method, path, body)
        problem(answer, 500)
        assert SECRET not in answer.text
    assert "GET /v1/counts failed" in caplog.text


# -- the wire ---------------------------------------------------------------------------------------------------------


@once
def test_a_body_is_at_most_64_kb_however_it_is_sent(bed: Bed) -> None:
    s = service(bed)
    problem(s.ask("POST", "/v1/sessions", {"uid": "ada", "name": "x" * request_limits.MAX_BODY}), 413)

    async def chunks() -> Any:
        for _ in range(20):
            yield b" " * 5000

    problem(s.ask("POST", "/v1/validate", content=chunks()), 413)
    for length in ("-1", "abc", "9" * 40):
        answer = s.ask("POST", "/v1/validate", content=b"{}", headers={"Content-Length": length})
        problem(answer, 413)
    assert s.ask("POST", "/v1/sessions", {"uid": "ada", "user_agent": "x" * 60_000}).status_code == 201


CHUNKED, EMPTY = (b"transfer-encoding", b"chunked"), (b"content-length", b"0")


@pytest.mark.parametrize("headers", [[], [CHUNKED], [CHUNKED, EMPTY], [EMPTY, CHUNKED], [EMPTY]])
@once
def test_a_body_is_counted_also_where_its_headers_declare_none(bed: Bed, headers: list[tuple[bytes, bytes]]) -> None:
    """HTTP/2 declares neither a length nor an encoding."""
    s = service(bed)
    said: list[Any] = []
    reads = 0

    async def receive() -> Any:
        nonlocal reads
        reads += 1
        return {"type": "http.request", "body": b" " * 40_000, "more_body": True}

    async def send(message: Any) -> None:
        said.append(message)

    scope = _scope("/v1/validate", [(b"content-type", b"application/json"), *headers])
    bed.loop.run(s.app(scope, receive, send))
    assert (said[0]["status"], reads) == (413, 2)


@once
def test_slow_bodies_time_out(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_limits, "BODY_SECONDS", 0.05)
    s = service(bed)

    async def drips() -> Any:
        yield b"{"
        await asyncio.sleep(30)

    with ends(within=15):
        problem(s.ask("POST", "/v1/validate", content=drips()), 408)


@once
def test_a_truncated_body_has_no_effect_although_it_looks_complete(bed: Bed) -> None:
    s = service(bed)
    s.p.login("ada")
    said: list[Any] = []
    messages = [{"type": "http.request", "body": b'{"uid": "ada", "reason": "x"}', "more_body": True},
                {"type": "http.disconnect"}]  # fmt: skip

    async def receive() -> Any:
        return messages.pop(0)

    async def send(message: Any) -> None:
        said.append(message)

    headers = [
        (b"authorization", b"Bearer key.kick"),
        (b"content-type", b"application/json"),
        (b"content-length", b"99"),
    ]
    bed.loop.run(s.app(_scope("/v1/kicks", headers), receive, send))
    assert said[0]["status"] == 400
    assert s.p.counts().sessions == 1


def _scope(path: str, headers: list[tuple[bytes, bytes]]) -> dict[str, Any]:
    return {"type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b"",
            "headers": headers, "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 1), "state": {}}  # fmt: skip


def _said(at: str, raw: bytes, seconds: float = 5.0) -> bytes:
    """The service's reply to these bytes, until it closes or sends nothing more."""
    parts = urlsplit(at)
    with socket.create_connection((parts.hostname, parts.port), timeout=seconds) as connection:
        connection.sendall(raw)
        answer = b""
        try:
            while data := connection.recv(65_536):
                answer += data
        except (TimeoutError, ConnectionError):
            pass
        return answer


@once
def test_headers_that_are_too_long_or_invalid_are_refused(bed: Bed) -> None:
    with served_on_thread(bed.url, bed.namespace, with_keys=False) as at:
        assert b" 200 " in _said(at, b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        for raw in (
            b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 40_000 + b"\r\n\r\n",
            b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 40_000,
            b"GET /" + b"y" * 40_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
            b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 10_000 + b"\r\n",
            b"nonsense\r\n\r\n",
            b"GET / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ):
            answer = _said(at, raw, 2.0)
            assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 403")) or not answer, answer[:200]
            assert b" 500 " not in answer
        assert b" 200 " in _said(at, b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")


@once
def test_the_head_of_a_request_is_measured_without_the_request_before_it(bed: Bed) -> None:
    first = b"POST /1 HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n" + b"x" * 60_000
    second = b"GET /2 HTTP/1.1\r\nHost: x\r\n\r\n"
    app = _Echo()
    assert b" 400 " not in _wire(bed, app, first + second[:10], second[10:], answers=2)
    assert [(path, len(body)) for _, path, body in app.requests] == [("/1", 60_000), ("/2", 0)]
    answer = _wire(bed, app, first + second[:-2] + b"X: ", *[b"y" * 9000] * 4, answers=2)
    assert b"The head of the request is too long." in answer


@once
def test_headers_after_a_body_are_not_read_as_a_request(bed: Bed) -> None:
    """A proxy that sets X-Forwarded-For, or removes a header, does not check there."""
    found: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        while (await receive()).get("more_body"):
            pass
        found.append(scope["headers"])
        await problem_of(503, "No.")(scope, receive, send)

    head = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    answer = _wire(bed, app, head + b"1\r\nx\r\n0\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 503")
    assert found == [[(b"host", b"x"), (b"transfer-encoding", b"chunked")]]


class _Echo:
    """An application that keeps the requests it gets."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, bytes]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message["body"], message["more_body"]
        self.requests.append((scope["method"], scope["path"], body))
        await problem_of(503, "No.")(scope, receive, send)


H2C = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABk\r\n"
WEBSOCKET = b"Connection: close, Upgrade\r\nUpgrade: websocket\r\n"


@pytest.mark.parametrize("upgrade", [H2C, WEBSOCKET], ids=["h2c", "websocket"])
@once
def test_a_request_with_an_upgrade_header_is_read_with_its_body(bed: Bed, upgrade: bytes) -> None:
    """curl --http2 and the HTTP client of Java send such a header with their first request."""
    head = b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n" + upgrade + b"\r\n"
    chunked = b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n" + upgrade + b"\r\n"
    for packets in (
        (head + b"abc",),
        (head, b"abc"),
        (head[:70], head[70:] + b"a", b"bc"),
        (head.replace(b"1.1", b"1.0") + b"abc",),
        (chunked + b"3\r\nabc\r\n0\r\n\r\n",),
    ):
        app = _Echo()
        assert _wire(bed, app, *packets).startswith(b"HTTP/1.1 503")
        assert app.requests == [("POST", "/a", b"abc")], packets


@once
def test_requests_that_follow_one_with_an_upgrade_header_are_served(bed: Bed) -> None:
    upgrade = b"GET /%d HTTP/1.1\r\nHost: x\r\n" + H2C + b"\r\n"
    app = _Echo()
    _wire(bed, app, upgrade % 1 + upgrade % 2 + b"GET /3 HTTP/1.1\r\nHost: x\r\n\r\n", upgrade % 4, answers=4)
    assert [path for _, path, _ in app.requests] == ["/1", "/2", "/3", "/4"]
    assert _wire(bed, app, b"CONNECT x:443 HTTP/1.1\r\nHost: x:443\r\n\r\n").startswith(b"HTTP/1.1 400")


@once
def test_an_application_with_websockets_gets_their_upgrades(bed: Bed) -> None:
    class Sockets(asyncio.Protocol):
        def __init__(self, **_: Any) -> None:
            pass

        def connection_made(self, transport: Any) -> None:
            self.write = transport.write

        def data_received(self, data: bytes) -> None:
            self.write(data + b"{}")

    head = b"GET /live HTTP/1.1\r\nhost: x\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\r\n"
    assert _wire(bed, _Echo(), head, ws=Sockets) == head + b"{}"


@once
def test_a_connection_above_the_limit_gets_a_problem_too(bed: Bed) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("no client is served")

    answer = _wire(bed, app, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", limit_concurrency=1)
    assert answer.startswith(b"HTTP/1.1 503")
    assert b"content-type: application/problem+json" in answer
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["detail"].startswith("Too many open connections")


def _wire(bed: Bed, app: Any, *packets: bytes, answers: int = 1, **options: Any) -> bytes:
    """The protocol's replies to these packets; the application is the test's."""

    async def run() -> bytes:
        config = uvicorn.Config(
            app, http=web_server.Protocol, lifespan="off", log_level="critical", **{"ws": "none"} | options
        )
        state = ServerState()
        made = asyncio.get_running_loop().create_server(lambda: web_server.Protocol(config, state, {}), "127.0.0.1", 0)
        async with await made as server, asyncio.timeout(PATIENT):
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            for packet in packets:
                writer.write(packet)
                await asyncio.sleep(0.01)
            answer = b"".join([await reader.readuntil(b"}") for _ in range(answers)])
            writer.close()
            await asyncio.gather(*state.tasks, return_exceptions=True)
        return answer

    return bed.loop.run(run())


@once
def test_idle_clients_are_disconnected(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_server, "HEAD_SECONDS", 0.2)
    monkeypatch.setattr(web_server, "WRITE_SECONDS", 0.2)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(1000):
            await send({"type": "http.response.body", "body": b"x" * 65_536, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def run() -> None:
        config = uvicorn.Config(app, http=web_server.Protocol, ws="none", lifespan="off", log_level="critical")
        state = ServerState()
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: web_server.Protocol(config, state, {}), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        for begun in (b"", b"GET / HTTP/1.1\r\nHost: x\r\n", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.transport.pause_reading()  # type: ignore[attr-defined]  # asyncio's stubs do not say what it is
            writer.write(begun)
            async with asyncio.timeout(PATIENT):
                while not state.connections:
                    await asyncio.sleep(0)
                while state.connections:
                    await asyncio.sleep(0.01)
            writer.close()
        await asyncio.gather(*state.tasks, return_exceptions=True)
        server.close()

    bed.loop.run(run())


EARLY = """
import os, signal, sys
from presence_core import AsyncPresence, cli

make = AsyncPresence.from_env

def make_after_signal(environ):
    os.kill(os.getpid(), signal.SIGTERM)
    return make(environ)

AsyncPresence.from_env = make_after_signal
sys.exit(cli.main(["serve", "--port", "0", "--worker"]))
"""


@on("valkey-sync")
def test_a_sigterm_that_comes_before_the_first_request_can_be_served_ends_the_service(bed: Bed) -> None:
    environ = os.environ | {"PRESENCE_REDIS_URL": bed.url, "PRESENCE_NAMESPACE": bed.namespace}
    command = [sys.executable, "-c", EARLY]
    done = subprocess.run(command, env=environ, cwd=ROOT, capture_output=True, text=True, timeout=PATIENT)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    assert "Serving http" in done.stdout
