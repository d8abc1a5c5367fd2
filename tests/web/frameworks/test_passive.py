"""Requests that are no activity: validated, and their session does not count as seen."""

from __future__ import annotations

import time
from typing import Any

import pytest

from presence_core import InvalidArgument
from presence_core.web.middleware.passive_requests import PassiveRequests
from presence_core.web.middleware.request_data import RequestData, read_environ, read_scope
from presence_core.web.rules import Rules
from tests.conftest import on
from tests.support.facade import P
from tests.web.frameworks.conftest import Make

PASSIVE = ("/health", "/api/poll", "x-poll", "accept: text/event-stream", "Purpose:prefetch")

NO_ACTIVITY: list[tuple[str, dict[str, str]]] = [
    ("/health", {}), ("/health/live", {}), ("/api/poll", {}), ("/", {"x_poll": "1"}),
    ("/", {"accept": "text/event-stream"}), ("/", {"accept": "Text/Event-Stream;q=1, */*"}),
    ("/", {"purpose": "prefetch"}),
]  # fmt: skip

ACTIVITY: list[tuple[str, dict[str, str]]] = [
    ("/", {}), ("/healthy", {}), ("/api", {}), ("//health", {}), ("/api/poll/../pay", {}), ("/", {"x_poll": ""}),
    ("/", {"accept": "text/html"}), ("/", {"purpose": "prefetched"}), ("/", {"x_polling": "1"}),
]  # fmt: skip


def seen(p: P) -> tuple[Any, Any, Any]:
    [session] = p.sessions("ada")
    return session.last_seen, session.expires_at, session.last_ip


@on("valkey-sync")
def test_a_passive_request_is_validated_and_moves_no_deadline(p: P, make: Make) -> None:
    login = p.login("ada", ip="198.51.100.1")
    before = seen(p)
    site = make(passive=PASSIVE, heartbeat=1)
    for path, headers in NO_ACTIVITY:
        assert site.ask(path, cookie=f"presence={login.token}", **headers).body == b"ada", (path, headers)
    assert site.checker.buffer.waiting == 0
    assert seen(p) == before
    p.kick("ada", by="sam", reason="test")
    for path, headers in NO_ACTIVITY:
        assert site.ask(path, cookie=f"presence={login.token}", **headers).status == 401, "a kick is final here, too"


@on("valkey-sync")
def test_polls_do_not_keep_a_session_alive_and_activity_between_them_does(p: P, make: Make) -> None:
    p.freeze()
    token = p.login("ada", idle_timeout=100).token
    site = make(passive=PASSIVE)
    site.checker._context.now = p.context.now

    def ask(path: str, seconds: float) -> int:
        p.advance(seconds)
        site.checker._context.now = p.context.now
        return site.ask(path, cookie=f"presence={token}").status

    assert [ask("/health", 60), ask("/", 30), ask("/api/poll", 60), ask("/health", 30)] == [200] * 4
    assert ask("/health", 11) == 401
    assert p.sessions("ada") == []


@on("valkey-sync")
def test_no_heartbeat_of_a_poll_goes_through_the_buffer_and_the_next_request_sends_one(p: P, make: Make) -> None:
    token = p.login("ada").token
    site = make(passive=PASSIVE, heartbeat=10)
    site.checker.buffer._interval = 3600.0
    now = [100.0]
    site.checker.known.clock = lambda: now[0]

    def ask(path: str) -> int:
        return site.ask(path, cookie=f"presence={token}").status

    assert ask("/") == 200
    now[0] += 11
    assert [ask("/health") for _ in range(5)] == [200] * 5
    assert site.checker.buffer.waiting == 0
    time.sleep(0.002)
    before = seen(p)
    assert ask("/") == 200
    assert site.checker.buffer.waiting == 1, "the poll has not taken its turn"
    site.close()
    assert seen(p)[0] > before[0]


@on("valkey-sync")
def test_several_cookies_of_a_poll_are_not_seen(p: P, make: Make) -> None:
    token = p.login("ada").token
    before = seen(p)
    site = make(passive=PASSIVE)
    junk = f"{token[:-43]}{'A' * 43}"
    assert site.ask("/health", cookie=f"presence={junk}; presence={token}").body == b"ada"
    assert (site.checker.buffer.waiting, seen(p)) == (0, before)


@pytest.mark.parametrize(("path", "headers"), [*NO_ACTIVITY, *ACTIVITY])
def test_activity_is_known_by_path_and_header(path: str, headers: dict[str, str]) -> None:
    passive = PassiveRequests(PASSIVE)
    environ = {"PATH_INFO": path, **{f"HTTP_{name.upper()}": value for name, value in headers.items()}}
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    expected = (path, headers) in NO_ACTIVITY
    assert passive.match(read_environ(environ)) is expected
    assert passive.match(read_scope({"path": path, "headers": raw})) is expected


def test_a_content_type_may_name_a_passive_request() -> None:
    passive = PassiveRequests(["content-type: application/csp-report"])
    assert passive.match(read_environ({"CONTENT_TYPE": "application/csp-report; charset=utf-8"}))
    assert not passive.match(RequestData("/"))


@pytest.mark.parametrize("passive", ["/health", ["a b"], [""], ["x: "], [1], 5, [":x"]])
def test_what_can_be_neither_path_nor_header_is_refused(passive: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"^passive must hold paths that begin with /, and headers such as"):
        Rules(passive=passive)
