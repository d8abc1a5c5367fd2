"""The ASGI middleware closes the websockets and the event streams of a session that has ended. The kicks come from
another process than the site's."""

from __future__ import annotations

import asyncio
import http.client
import re
import time
from collections.abc import Iterator, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import StreamingResponse
from websockets.exceptions import ConnectionClosed

from presence_core import Presence, Settings
from presence_core.web.middleware.open_connections import SessionEnded, free_frames, is_of_the_end
from tests.support.fair_clock import PATIENT
from tests.support.servers import HOST, Server, missing, redis_binary, valkey_binary, wait_for
from tests.web.open_connections.running import Site, closing, running_site, speak


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    binary = valkey_binary() or redis_binary() or missing("any Redis server")
    with Server.start(binary, tmp_path_factory.mktemp("sockets")) as running:
        yield running


@pytest.fixture(scope="module", params=["AsyncPresence", "Presence"])
def site(request: pytest.FixtureRequest, server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp(request.param)
    with running_site(directory, server, request.param) as running:
        yield running


def test_a_kick_by_another_process_closes_the_sockets_of_the_session_and_no_other(site: Site) -> None:
    ada, eve = site.sign_in("ada"), site.sign_in("eve")
    other_device = site.sign_in("ada")
    with ExitStack() as stack:
        mine = [stack.enter_context(site.socket("/echo", ada.token)) for _ in range(3)]
        others = [stack.enter_context(site.socket("/echo", token)) for token in (eve.token, other_device.token, None)]
        for socket in mine + others:
            speak(socket)
        site.presence.kick("ada", ada.session.session_id, by="sam", reason="test")
        assert [closing(socket) for socket in mine] == [(4401, "kicked")] * 3
        for socket in others:
            speak(socket)
        wait_for("the applications", lambda: site.seen.count("disconnect 4401 kicked") == 3)


@pytest.mark.parametrize(("how", "reason"), [("logout", "logout"), ("replace", "replaced"), ("expire", "expired"),
                                             ("revoke", "kicked"), ("require", "sign_in_required")])  # fmt: skip
def test_every_end_closes_the_socket_with_its_word(site: Site, how: str, reason: str) -> None:
    uid = f"{how}-{time.time_ns()}"
    limits = {"idle_timeout": 1} if how == "expire" else {"session_id": f"{uid}-1"}
    login = site.sign_in(uid, device="phone", **limits)
    with site.socket("/passive", login.token) as socket:
        speak(socket)
        if how == "logout":
            site.presence.logout(uid, login.session.session_id)
        elif how == "replace":
            limit = Settings(site.presence.settings.namespace, max_sessions=1, timeout=PATIENT)
            with Presence.from_url(site.server.url, limit) as other:
                other.login(uid)
        elif how == "revoke":
            site.presence.revoke_before(by="sam", reason="test")
        elif how == "require":
            site.presence.require_sign_in(uid, by="sam", reason="test")
        assert closing(socket) == (4401, reason)


def test_a_rotated_secret_and_a_new_authentication_close_nothing(site: Site) -> None:
    login = site.sign_in("rosa")
    with site.socket("/echo", login.token) as socket:
        speak(socket)
        renewed = site.presence.reauthenticated(site.presence.rotate(login.token).token, methods=["pwd"])
        time.sleep(0.3)
        speak(socket)
        assert site.presence.validate(renewed.token)
        site.presence.kick("rosa", by="sam", reason="test")
        assert closing(socket) == (4401, "kicked")


def test_a_socket_whose_session_ends_before_it_is_accepted_closes_with_the_reason_too(site: Site) -> None:
    login, begun = site.sign_in("luke"), site.seen.count("slow begins")

    def kick() -> None:
        wait_for("the application", lambda: site.seen.count("slow begins") > begun)
        site.presence.kick("luke", by="sam", reason="test")

    with ThreadPoolExecutor() as pool:
        kicking = pool.submit(kick)
        with site.socket("/slow", login.token) as socket:
            assert closing(socket) == (4401, "kicked")
        kicking.result()
    wait_for("the application", lambda: site.seen[-1:] == ["websocket.disconnect"])


def test_messages_of_the_visitor_keep_the_session_and_passive_ones_do_not(site: Site) -> None:
    active, idle = site.sign_in("active", idle_timeout=3), site.sign_in("idle", idle_timeout=3)
    with site.socket("/echo", active.token) as talking, site.socket("/passive", idle.token) as polling:
        began = time.monotonic()
        with ThreadPoolExecutor() as pool:
            expired = pool.submit(closing, polling)
            while not expired.done():
                with suppress(ConnectionClosed):  # since it was asked
                    polling.send("a message that does not count")
                speak(talking)
                time.sleep(0.1)
        assert expired.result() == (4401, "expired")
        assert 2.5 < time.monotonic() - began < 10
        speak(talking)


@pytest.mark.parametrize("path", ["/pushes", "/tasks", "/deaf"])
def test_an_application_that_ignores_the_disconnect_does_not_keep_the_socket_open(site: Site, path: str) -> None:
    """``running_site`` sees that nothing of it is logged."""
    stop = f"{path[1:]} stopped"
    stopped = site.seen.count(stop)
    login = site.sign_in("ida")
    with site.socket(path, login.token) as socket:
        site.presence.kick("ida", by="sam", reason="test")
        assert closing(socket) == (4401, "kicked")
    if path != "/deaf":
        wait_for("the end of the application", lambda: site.seen.count(stop) > stopped)
    else:
        assert "deaf woke up" not in site.seen, "the socket was closed before"


def test_a_path_of_keep_open_and_an_anonymous_visitor_are_left_alone(site: Site) -> None:
    login = site.sign_in("kay")
    with site.socket("/kept", login.token) as kept, site.socket("/echo", None) as anonymous:
        with site.socket("/echo", login.token) as closed:
            for socket in (kept, anonymous, closed):
                speak(socket)
            site.presence.kick("kay", by="sam", reason="test")
            assert closing(closed) == (4401, "kicked")
        speak(kept)
        speak(anonymous)


def test_nothing_watches_once_the_last_socket_is_closed(site: Site) -> None:
    login = site.sign_in("zoe")
    wait_for("the end of the watch", lambda: site.watchers == 0)
    with site.socket("/echo", login.token) as first, site.socket("/echo", login.token) as second:
        speak(first)
        speak(second)
        assert site.watchers == 1
    wait_for("the end of the watch", lambda: site.watchers == 0)
    with site.socket("/echo", login.token) as socket:
        speak(socket)
        site.presence.kick("zoe", by="sam", reason="test")
        assert closing(socket) == (4401, "kicked")
    wait_for("the end of the watch", lambda: site.watchers == 0)


@pytest.mark.parametrize("client", ["AsyncPresence", "Presence"])
def test_a_site_that_shuts_down_with_open_sockets_leaves_no_task_and_logs_nothing(
    client: str, server: Server, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        with running_site(tmp_path, server, client) as site:
            login = site.sign_in("sue")
            sockets = [stack.enter_context(site.socket("/echo", login.token)) for _ in range(3)]
            for socket in sockets:
                speak(socket)
        assert [closing(socket) for socket in sockets] == [(1012, "")] * 3, "as without the middleware"
    assert not re.search("ERROR|WARNING|Task", (tmp_path / "log").read_text())


# -- event streams -----------------------------------------------------------------------------------------------------


@contextmanager
def stream(site: Site, path: str, token: str) -> Iterator[http.client.HTTPResponse]:
    connection = http.client.HTTPConnection(HOST, site.port, timeout=30)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        response = connection.getresponse()
        assert response.status == 200
        assert response.readline() == b"data: news\n"
        yield response
    finally:
        connection.close()


@pytest.mark.parametrize("path", ["/events", "/quiet-events"])
def test_an_event_stream_ends_whole_and_its_application_stops(site: Site, path: str) -> None:
    login = site.sign_in(f"reader of {path}")
    with stream(site, path, login.token) as response:
        site.presence.kick(login.session.uid, by="sam", reason="test")
        response.read()  # up to the end of the body: no error
        assert response.isclosed()
    wait_for("the end of the application", lambda: f"events of {login.session.uid} stopped" in site.seen)


def test_an_error_that_a_task_group_has_raised_again_is_freed() -> None:
    """Its context is the group of which it is a part. An application raises that if it sends before it has learnt of
    the disconnect."""

    async def send(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.body":
            raise SessionEnded("The session of this connection has ended.")

    async def receive() -> MutableMapping[str, Any]:
        return await asyncio.Future()

    with pytest.raises(SessionEnded) as caught:
        asyncio.run(StreamingResponse(iter(["news"]))({"type": "http"}, receive, send))
    assert is_of_the_end(caught.value)
    free_frames(caught.value)


@pytest.mark.parametrize("path", ["/kept-events", "/download"])
def test_other_long_responses_and_those_of_keep_open_go_on(site: Site, path: str) -> None:
    login = site.sign_in("dora")
    with stream(site, path, login.token) as response, stream(site, "/events", login.token) as closed:
        site.presence.kick("dora", by="sam", reason="test")
        closed.read()
        for _ in range(20):
            assert response.readline() in (b"data: news\n", b"\n")
