"""Open connections while Redis is away, and after it: none closes because of the outage, and no end is missed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from presence_core import Presence, Settings
from tests.support.facade import EventLoop
from tests.support.fair_clock import PATIENT
from tests.support.faults.proxy import Proxy
from tests.support.servers import Server, missing, redis_binary, valkey_binary, wait_for
from tests.web.open_connections.running import closing, running_site, speak


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    binary = valkey_binary() or redis_binary() or missing("any Redis server")
    keeps = ("--appendonly", "yes", "--appendfsync", "always")
    with Server.start(binary, tmp_path / "redis", *keeps, port=True) as running:
        yield running


@pytest.mark.parametrize("client", ["AsyncPresence", "Presence"])
def test_a_socket_whose_session_ended_in_an_outage_closes_after_it_and_the_others_stay(
    client: str, server: Server, loop: EventLoop, tmp_path: Path
) -> None:
    """Also if the event of that end was dropped meanwhile: the stream has room for few."""
    with (
        Proxy(server, loop) as between,
        running_site(tmp_path, server, client, PRESENCE_REDIS_URL=between.url, PRESENCE_TIMEOUT="0.5") as site,
        Presence.from_url(server.url, Settings(client.lower(), max_events=100, timeout=PATIENT)) as crowd,
    ):
        ada, eve = site.sign_in("ada"), site.sign_in("eve")
        with site.socket("/passive", ada.token) as kicked, site.socket("/passive", eve.token) as stays:
            speak(kicked)
            speak(stays)
            between.holds = lambda source: True
            site.presence.kick("ada", by="sam", reason="test")
            crowd.login_many({"uid": f"u{number}"} for number in range(1000))
            crowd.sweep()
            time.sleep(0.7)
            for _ in range(3):
                speak(kicked)
                speak(stays)
            between.holds = lambda source: False
            assert closing(kicked) == (4401, "kicked")
            speak(stays)


def test_connections_that_the_server_closes_hide_no_end(server: Server, tmp_path: Path) -> None:
    with running_site(tmp_path, server, "AsyncPresence") as site, ExitStack() as stack:
        logins = [site.sign_in(f"u{number}") for number in range(10)]
        sockets = [stack.enter_context(site.socket("/passive", login.token)) for login in logins]
        for socket in sockets:
            speak(socket)
        for login in logins[1:]:
            server.command("CLIENT", "KILL", "TYPE", "normal")
            site.presence.kick(login.session.uid, by="sam", reason="test")
            server.command("CLIENT", "KILL", "TYPE", "normal")
        assert [closing(socket) for socket in sockets[1:]] == [(4401, "kicked")] * 9
        speak(sockets[0])


def test_after_a_restart_of_the_server_its_sessions_are_watched_again(server: Server, tmp_path: Path) -> None:
    with running_site(tmp_path, server, "AsyncPresence", PRESENCE_TIMEOUT="0.5") as site:
        login, lost = site.sign_in("ada"), site.sign_in("eve")
        with site.socket("/passive", login.token) as socket, site.socket("/passive", lost.token) as other:
            speak(socket)
            server.kill()
            time.sleep(0.7)
            speak(socket)
            server.restart()
            wait_for("the sessions", lambda: site.presence.sessions("ada"))
            site.presence.kick("ada", by="sam", reason="test")
            assert closing(socket) == (4401, "kicked")
            speak(other)
            server.command("FLUSHALL")  # a restart without its data: no request of these sessions passes
            assert closing(other) == (4401, "unknown")
