"""Event streams of WSGI applications: once their session has ended they send nothing more."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from presence_core import Presence
from presence_core.web.rules import Rules
from presence_core.web.wsgi import PresenceMiddleware
from tests.conftest import Bed, on
from tests.support.servers import wait_for

pytestmark = on("valkey-sync")


@pytest.fixture
def presence(bed: Bed) -> Presence:
    return bed.connect()


def news(kind: str, closed: list[str]) -> Callable[..., Iterator[bytes]]:
    """An application that streams for ever. It begins when it is read, as a generator does."""

    def app(environ: dict[str, Any], start_response: Any) -> Iterator[bytes]:
        start_response("200 OK", [("Content-Type", kind)])
        try:
            while True:
                yield b"data: news\n\n"
        finally:
            closed.append("closed")

    return app


def open_stream(presence: Presence, app: Any, uid: str, path: str = "/", **rules: Any) -> Any:
    site = PresenceMiddleware(app, presence, rules=Rules(**rules))
    token = presence.login(uid).token
    environ = {"PATH_INFO": path, "REQUEST_METHOD": "GET", "HTTP_AUTHORIZATION": f"Bearer {token}"}
    return site(environ, lambda *start: None)


def test_the_event_stream_of_a_kicked_session_ends_at_its_next_part(presence: Presence) -> None:
    closed: list[str] = []
    ada, eve = (open_stream(presence, news("text/event-stream; charset=utf-8", closed), uid) for uid in ("ada", "eve"))
    parts, others = iter(ada), iter(eve)
    assert next(parts) == next(others) == b"data: news\n\n"
    presence.kick("ada", by="sam", reason="test")
    began = time.monotonic()
    wait_for("the end of the stream", lambda: next(parts, None) is None)
    assert time.monotonic() - began < 5
    assert next(others) == b"data: news\n\n"
    ada.close()
    eve.close()
    assert closed == ["closed"] * 2
    assert presence.internal.ends._watched._watched == {}


@pytest.mark.parametrize(("kind", "rules"), [("text/plain", {}), ("text/event-stream", {"keep_open": ("/kept",)}),
                                             ("text/event-stream", {"mode": "observe"})])  # fmt: skip
def test_other_responses_go_on(presence: Presence, kind: str, rules: dict[str, Any]) -> None:
    kept, watched = open_stream(presence, news(kind, []), "ada", "/kept", **rules), "text/event-stream"
    closing = iter(open_stream(presence, news(watched, []), "ada"))
    parts = iter(kept)
    assert next(parts) == next(closing)
    presence.kick("ada", by="sam", reason="test")
    wait_for("the end of the other stream", lambda: next(closing, None) is None)
    assert next(parts) == b"data: news\n\n"
