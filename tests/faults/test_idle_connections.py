"""A connection that died while it was idle costs no caller anything: it is noticed before a call is written to it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
import redis

from presence_core import AsyncPresence, Presence, Settings
from presence_core.transport import channel, pools
from presence_core.web.service.api_keys import make_key
from tests.conftest import Bed, on
from tests.contract.connections.test_keys import SETTINGS, _everything
from tests.support.facade import EventLoop, P
from tests.support.fair_clock import PATIENT
from tests.support.faults.outages import WRITES
from tests.support.faults.proxy import Proxy
from tests.support.servers import KEEPS_ALL, Server, missing, redis_binary, valkey_binary, wait_for
from tests.support.soak import size
from tests.web.service.process import served_on_thread


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    binary = valkey_binary() or redis_binary() or missing("any Redis server")
    with Server.start(binary, tmp_path, *KEEPS_ALL, port=True) as running:
        yield running


def close_all(raw: Any) -> None:
    """Close the connections of every client, but not those of Sentinels and of the one that asks."""
    is_cluster = isinstance(raw, redis.RedisCluster)
    for node in raw.get_primaries() if is_cluster else (None,):
        at = {} if node is None else {"target_nodes": node}
        for client in raw.client_list(_type="normal", **at):
            if not client["name"].startswith("sentinel"):
                raw.execute_command("CLIENT", "KILL", "ID", client["id"], "SKIPME", "yes", **at)


class _Interrupted:
    """A client before each of whose calls something happens to its connections."""

    def __init__(self, p: P, before: Callable[[], None]) -> None:
        self._p = p
        self._before = before
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._p, name)
        if not callable(found) or name == "context":
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            self._before()
            self.calls += 1
            return found(*args, **kwargs)

        return call


@on("valkey", "redis7-async", "cluster", "sentinel", soak=("sync", "async"))
def test_the_first_call_of_every_method_after_its_connections_were_closed_succeeds(bed: Bed, raw: Any) -> None:
    p = bed.connect(**SETTINGS)
    for _ in range(size(1, 7)):
        interrupted = _Interrupted(p, lambda: close_all(raw))
        _everything(cast(P, interrupted))
        assert interrupted.calls > 100
        p.erase("a:{b}", by="staff", reason="again")


@pytest.mark.parametrize("protocol", [2, 3])
def test_the_first_change_after_a_restart_succeeds(server: Server, anywhere: Bed, protocol: int) -> None:
    p = anywhere.connect_to(f"{server.url}?protocol={protocol}")
    for name, write in WRITES.items():
        token = p.login("ada", session_id=f"before-{name}").token
        server.kill()
        server.restart()
        write(p, token)


def test_the_first_change_after_the_server_closed_idle_connections_succeeds(server: Server, anywhere: Bed) -> None:
    p = anywhere.connect_to(server.url)
    p.login("ada")
    server.command("CONFIG", "SET", "timeout", "1")

    def clients() -> int:
        return str(server.command("CLIENT", "LIST")).count("lib-name=redis-py")

    wait_for("the end of idle connections", lambda: clients() <= 1)
    p.login("bob")
    assert p.counts().totals["login"] == 2


def test_a_connection_that_a_proxy_forgot_is_replaced_in_a_part_of_the_calls_time(
    server: Server, anywhere: Bed, loop: EventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (channel, pools):
        monkeypatch.setattr(module, "IDLE_SECONDS", 0.1)
    with Proxy(server, loop) as proxy:
        p = anywhere.connect_to(proxy.url, timeout=4)
        for name, write in WRITES.items():
            token = p.login("ada", session_id=f"before-{name}").token
            proxy.forget()
            time.sleep(0.2)
            write(p, token)


@pytest.mark.parametrize("uses_uvloop", [False, True])
def test_a_loop_that_was_busy_meanwhile_writes_to_no_closed_connection(server: Server, uses_uvloop: bool) -> None:
    if uses_uvloop:
        uvloop = pytest.importorskip("uvloop")
    factory = uvloop.new_event_loop if uses_uvloop else asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner, server.client() as raw:
        presence = AsyncPresence.from_url(server.url, Settings(timeout=20))

        async def log_in(number: int) -> None:
            close_all(raw)  # the loop learns of it only in its next turn
            await presence.login(f"u{number}")

        for number in range(size(20, 200)):
            runner.run(log_in(number))
        assert runner.run(presence.counts()).totals["login"] == size(20, 200)
        runner.run(presence.close())


@on("valkey-async")
def test_callers_at_once_share_the_connection_that_replaces_a_closed_one(bed: Bed, raw: Any) -> None:
    async def many(presence: AsyncPresence) -> None:
        async with presence:
            for burst in range(5):
                await asyncio.gather(*(presence.login(f"u{burst}-{number}") for number in range(100)))
                close_all(raw)
            assert (await presence.counts()).totals["login"] == 500
            ours = [client for client in raw.client_list(_type="normal") if client["lib-name"] == "redis-py"]
            assert len(ours) <= 3, "this client's, and that of the test"

    asyncio.run(many(AsyncPresence.from_url(bed.url, Settings(namespace=bed.namespace, timeout=20))))


@on("valkey-async", "cluster-async")
def test_the_service_answers_the_first_change_after_its_connections_were_closed(bed: Bed, raw: Any) -> None:
    with Presence.from_url(bed.url, Settings(bed.namespace, timeout=PATIENT)) as presence:
        _, key = make_key(presence, "site", ["record"])
    with (
        served_on_thread(bed.url, bed.namespace) as at,
        httpx.Client(headers={"Authorization": f"Bearer {key}"}) as site,
    ):
        for number in range(size(10, 200)):
            close_all(raw)
            answer = site.post(
                f"{at}/v1/sessions", json={"uid": f"u{number}"}, headers={"Authorization": f"Bearer {key}"}
            )
            assert answer.status_code == 201
