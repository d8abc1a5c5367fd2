"""Ways to connect; and connections that must stay correct across forks, interrupts and cancelled tasks."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pytest
import redis.asyncio
from redis.crc import key_slot

from presence_core import AsyncPresence, InvalidArgument, Presence, Settings, Unavailable, Worker
from tests.conftest import Bed, on, one_mode
from tests.support.facade import P
from tests.support.fair_clock import PATIENT
from tests.support.servers import Sentinels, Server, missing, redis_binary, valkey_binary, wait_for


@pytest.fixture
def any_binary() -> str:
    return valkey_binary() or redis_binary() or missing("any Redis server")


@pytest.fixture
def server(any_binary: str, tmp_path: Path) -> Iterator[Server]:
    with Server.start(any_binary, tmp_path, port=True) as running:
        yield running


def test_the_embedded_server_starts_with_one_line_and_keeps_its_data(any_binary: str, tmp_path: Path) -> None:
    with Presence.embedded(tmp_path) as presence:
        token = presence.login("ada").token
        with Presence.embedded(tmp_path, Settings(idle_timeout=60)) as other:
            assert other.validate(token)
            assert other.settings.idle_timeout == 60

    async def later() -> bool:
        async with AsyncPresence.embedded(tmp_path) as presence:
            return bool(await presence.validate(token))

    assert asyncio.run(later())


def test_the_url_embedded_starts_the_embedded_server_in_the_directory_of_the_environment(
    any_binary: str, tmp_path: Path
) -> None:
    environ = {"PRESENCE_REDIS_URL": "embedded", "PRESENCE_DATA_DIR": str(tmp_path / "own")}
    with Presence.from_env(environ) as presence:
        presence.login("ada")
        with Presence.embedded(tmp_path / "own") as other:
            assert other.is_online("ada")


def test_redis_url_is_used_only_where_the_namespace_exists(server: Server) -> None:
    environ = {"REDIS_URL": server.url, "PRESENCE_TIMEOUT": str(PATIENT)}

    async def online() -> bool:
        async with AsyncPresence.from_env(environ) as presence:
            return await presence.is_online("ada")

    with pytest.raises(InvalidArgument, match=r"^PRESENCE_REDIS_URL must be set: the server of REDIS_URL has no"):
        asyncio.run(online())
    assert server.command("DBSIZE") == 0
    with Presence.from_url(server.url, Settings(timeout=PATIENT)) as presence:
        presence.login("ada")
    assert asyncio.run(online())
    with (
        Presence.from_env(environ | {"PRESENCE_REDIS_URL": "redis://127.0.0.1:1"}) as named,
        pytest.raises(Unavailable),
    ):
        named.counts()
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1:1 "):
        Presence.from_env({"REDIS_URL": "redis://127.0.0.1:1"})


def test_a_closed_client_refuses_calls_until_it_is_opened_again(server: Server) -> None:
    presence = Presence.from_url(server.url, Settings(timeout=PATIENT))
    token = presence.login("ada").token
    presence.close()
    presence.close()
    for call in (lambda: presence.validate(token), presence.counts, lambda: presence.login("eve")):
        with pytest.raises(Unavailable, match=r"^This client is closed\."):
            call()
    with presence:
        assert presence.validate(token)
        assert not presence.is_online("eve")

    async def site() -> None:
        client = AsyncPresence.from_url(server.url, Settings(timeout=PATIENT))
        for _ in range(2):
            async with client:
                assert await client.validate(token)
            with pytest.raises(Unavailable, match=r"^This client is closed\."):
                await client.validate(token)

    asyncio.run(site())


def test_an_async_client_of_the_caller_is_not_closed(server: Server) -> None:
    async def site() -> None:
        async with redis.asyncio.Redis.from_url(server.url, decode_responses=True) as own:
            async with AsyncPresence(own) as presence:
                login = await presence.login("ada", name="Ada 😀")
                session = (await presence.validate(login.token)).session
                assert session is not None
                assert session.name == "Ada 😀"
            assert await own.ping()

    asyncio.run(site())


@pytest.mark.soak  # faults/test_failover.py kills one, too
@pytest.mark.cluster
def test_a_master_is_found_by_its_sentinels_and_so_is_its_successor(any_binary: str, tmp_path: Path) -> None:
    with (
        Sentinels.start(any_binary, tmp_path) as sentinels,
        Presence.from_url(sentinels.url, Settings(timeout=PATIENT)) as presence,
    ):
        token = presence.login("ada").token

        async def same() -> bool:
            async with AsyncPresence.from_url(sentinels.url, Settings(timeout=PATIENT)) as client:
                return bool(await client.validate(token))

        assert asyncio.run(same())
        assert presence.counts().sessions == 1
        first = sentinels.master()
        with first.client() as raw:
            raw.execute_command("WAIT", 2, 2000)
        first.kill()
        sentinels.wait_ok()
        assert presence.validate(token)
        assert presence.login("ada").session.uid == "ada"


@one_mode("sync")
@pytest.mark.cluster
def test_a_master_without_replicas_is_left_for_the_one_that_sentinels_name_now(
    anywhere: Bed, any_binary: str, tmp_path: Path
) -> None:
    safe = ["--min-replicas-to-write", "1"]
    with Sentinels.start(any_binary, tmp_path, extra_args=safe) as sentinels:
        old, new, third = sentinels.servers
        p = anywhere.connect_to(sentinels.url)
        p.clock.run_freely()
        token = p.login("ada").token
        wait_for(
            "replicas that have it", lambda: {node.command("DBSIZE") for node in (old, new)} == {old.command("DBSIZE")}
        )
        name = sentinels.master_name
        for sentinel in sentinels.sentinels:  # a second failover does this; the old master learns of it much later
            sentinel.command("SENTINEL", "REMOVE", name)
        new.command("REPLICAOF", "NO", "ONE")
        third.command("REPLICAOF", new.host, new.port or 0)
        for sentinel in sentinels.sentinels:
            sentinel.command("SENTINEL", "MONITOR", name, new.host, new.port or 0, 2)
        wait_for("replicas that know their master", lambda: "connected_slaves:1" in new.command("INFO", "replication"))
        wait_for("a master that knows to be alone", lambda: "connected_slaves:0" in old.command("INFO", "replication"))
        wait_for("a login that is taken", lambda: _is_taken(lambda: p.login("bob", session_id="session-1")))
        assert p.validate(token)
        assert p.counts().sessions == 2
        assert new.command("DBSIZE") > old.command("DBSIZE"), "it is where Sentinels say"


def _is_taken(call: Callable[[], object]) -> bool:
    try:
        return bool(call())
    except Unavailable:
        return False


def _nodes(bed: Bed) -> list[str]:
    return [f"{node.host}:{node.port}" for node in bed.raw.get_primaries()]


def _node_of(tag: str) -> int:
    """Which of the three nodes has the keys with this tag."""
    return key_slot(tag.encode()) * 3 // 16_384


_IS_CLUSTER = r"^Redis at 127\.0\.0\.1:\d+ is part of a Redis Cluster: its URL must begin with redis\+cluster://"


@on("cluster")
@pytest.mark.parametrize("known", [False, True])
def test_the_first_error_of_a_plain_url_to_a_cluster_names_the_right_one(bed: Bed, known: bool) -> None:
    namespace = bed.namespace
    if known:
        bed.connect().login("ada")
    else:  # layout and first shard on different nodes: a node with both would serve it, as a server of its own
        namespace = next(
            name for name in map("split{}".format, range(100)) if _node_of(name) != _node_of(f"{name}:1:0")
        )
    before = bed.families()
    for address in _nodes(bed):
        with pytest.raises(Unavailable, match=_IS_CLUSTER) as raised:
            bed.connect_to(f"redis://{address}", namespace=namespace).counts()
        assert raised.value.code == "MOVED"
    assert bed.families() == before


@on("cluster-sync")
def test_a_worker_with_a_plain_url_to_a_cluster_says_so_and_does_not_lead(
    bed: Bed, caplog: pytest.LogCaptureFixture
) -> None:
    bed.connect().login("ada")
    caplog.set_level("INFO", "presence_core.worker")
    for address in _nodes(bed):
        with Presence.from_url(f"redis://{address}", Settings(bed.namespace, timeout=PATIENT)) as presence:
            worker = Worker(presence)
            worker._turn()
            assert re.search(_IS_CLUSTER, str(worker.last_error))
            assert not worker.leads
    assert "leads" not in caplog.text


@on("cluster")
def test_a_cluster_is_found_by_any_of_its_start_nodes_that_answers(bed: Bed) -> None:
    bed.connect().login("ada")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        away = ("127.0.0.1:1", f"127.0.0.1:{silent.getsockname()[1]}")
        for hosts in ((*away, _nodes(bed)[0]), (_nodes(bed)[2], *away)):
            assert bed.connect_to(f"redis+cluster://{','.join(hosts)}", timeout=6).counts().sessions == 1
        with pytest.raises(Unavailable, match=r"^Redis at 127\.0\.0\.1:\d+, 127\.0\.0\.1:\d+ cannot be reached"):
            bed.connect_to(f"redis+cluster://{','.join(away)}", timeout=0.4).counts()


FORKING = """
import os, sys
from presence_core import Presence, Settings
p = Presence.from_url(sys.argv[1], Settings(namespace=sys.argv[2]))
mine = p.login(f"parent").token
child = os.fork()
name = "parent" if child else "child"
if not child:
    mine = p.login("child").token
for _ in range(300):
    session = p.validate(mine).session
    assert session is not None and session.uid == name, session
if not child:
    os._exit(0)
_, status = os.waitpid(child, 0)
assert status == 0, status
assert p.counts().sessions == 2
"""


@on("valkey-sync", "redis7-sync")
def test_a_forked_child_does_not_use_its_parents_connection(bed: Bed) -> None:
    run = subprocess.run(
        [sys.executable, "-c", FORKING, bed.url, bed.namespace], capture_output=True, text=True, timeout=60
    )
    assert (run.returncode, run.stderr) == (0, "")


class _Interrupt(Exception):
    pass


def test_a_reply_left_unread_by_an_interrupt_is_not_read_by_another_call(server: Server) -> None:
    def interrupt(number: int, frame: FrameType | None) -> None:
        raise _Interrupt

    with Presence.from_url(server.url, Settings(timeout=PATIENT)) as p:
        for name in ("ada", "bob"):
            p.login(name, session_id="session-1")
        before = signal.signal(signal.SIGALRM, interrupt)
        try:
            server.pause()
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            with pytest.raises(_Interrupt):
                p.sessions("ada")
        finally:
            signal.signal(signal.SIGALRM, before)
            server.resume()
        for _ in range(3):
            assert [session.uid for session in p.sessions("bob")] == ["bob"]


def test_a_reply_left_unread_by_a_cancelled_task_is_not_read_by_another_call(server: Server) -> None:
    async def site() -> None:
        async with AsyncPresence.from_url(server.url, Settings(timeout=PATIENT)) as p:
            for name in ("ada", "bob"):
                await p.login(name, session_id="session-1")
            server.pause()
            try:
                for _ in range(3):
                    with pytest.raises(TimeoutError):
                        await asyncio.wait_for(p.sessions("ada"), 0.05)
            finally:
                server.resume()
            for _ in range(3):
                assert [session.uid for session in await p.sessions("bob")] == ["bob"]
            names = await asyncio.gather(*(p.sessions(name) for name in ("ada", "bob") * 20))
            assert [found[0].uid for found in names] == ["ada", "bob"] * 20

    asyncio.run(site())


@on("valkey-async", "cluster-async", soak=("async",))
def test_hundreds_of_tasks_share_few_connections_without_an_error(p: P, bed: Bed) -> None:
    p.login_many({"uid": f"u{number}", "session_id": "session-1"} for number in range(400))

    async def site() -> list[int]:
        async with AsyncPresence.from_url(bed.url, Settings(bed.namespace, timeout=PATIENT)) as presence:
            found = await asyncio.gather(*(presence.sessions(f"u{number}") for number in range(400)))
            return [len(page) for page in found]

    assert asyncio.run(site()) == [1] * 400
