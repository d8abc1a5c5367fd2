"""Many callers at once: more than connections, during a stall, and while connections break."""

from __future__ import annotations

import asyncio
import ctypes
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from math import inf
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio

from presence_core import AsyncPresence, Login, OutcomeUnknown, Presence, Settings, Unavailable
from tests.conftest import Bed, on
from tests.support.facade import EventLoop
from tests.support.fair_clock import PATIENT, FairClock
from tests.support.faults.proxy import Proxy
from tests.support.servers import Server, missing, redis_binary, wait_for
from tests.support.soak import size

THREADS = 200


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Server.start(redis_binary() or missing("redis-server on PATH"), tmp_path, port=True) as running:
        yield running


class SitesPool(redis.ConnectionPool):
    """A class of the site's: presence_core borrows from it."""


class SitesAsyncPool(redis.asyncio.ConnectionPool):
    """The same for asyncio."""


def default(url: str) -> redis.Redis:
    return redis.Redis.from_url(url)


def single(url: str) -> redis.Redis:
    return redis.Redis.from_url(url, single_connection_client=True)


def pool_of(pool_class: Any, connections: int, **options: Any) -> Callable[[str], redis.Redis]:
    def make(url: str) -> redis.Redis:
        return redis.Redis(connection_pool=pool_class.from_url(url, max_connections=connections, **options))

    return make


CLIENTS: dict[str, Callable[[str], redis.Redis]] = {
    "default": default,
    "one": pool_of(redis.ConnectionPool, 1),
    "two": pool_of(redis.ConnectionPool, 2),
    "three": pool_of(redis.ConnectionPool, 3),
    "blocking": pool_of(redis.BlockingConnectionPool, 2),
    "single": single,
    "site's": pool_of(SitesPool, 2),
}


@on("redis7-sync")
@pytest.mark.parametrize("kind", CLIENTS)
def test_more_threads_than_connections_wait_and_do_not_fail(bed: Bed, kind: str) -> None:
    with CLIENTS[kind](bed.url) as client:
        presence = Presence(client, Settings(namespace=bed.namespace, timeout=PATIENT))
        tokens = {uid: presence.login(uid).token for uid in map(str, range(20))}
        start = threading.Barrier(THREADS)

        def visit(number: int) -> None:
            uid = str(number % 20)
            start.wait()
            for _ in range(3):
                validation = presence.validate(tokens[uid])
                assert validation.session is not None
                assert validation.session.uid == uid
                if kind == "default" and number % 10 == 0:  # of the others redis-py refuses what is too much
                    client.ping()

        with ThreadPoolExecutor(THREADS) as threads:
            list(threads.map(visit, range(THREADS)))
        assert client.ping()


@on("redis7-sync")
@pytest.mark.parametrize("connections", [1, 2, 3])
def test_the_site_can_always_use_its_own_pool(bed: Bed, connections: int) -> None:
    """Between two calls it has all of its connections."""
    pool = SitesPool.from_url(bed.url, max_connections=connections)
    with redis.Redis(connection_pool=pool) as client:
        presence = Presence(client, Settings(namespace=bed.namespace, timeout=PATIENT))
        token = presence.login("ada").token
        for _ in range(10):
            assert presence.validate(token)
            taken = [pool.get_connection() for _ in range(connections)]
            for connection in taken:
                pool.release(connection)


def test_during_a_stall_our_threads_leave_the_site_the_last_connection_of_its_own_pool(server: Server) -> None:
    pool = SitesPool.from_url(server.url, max_connections=3)
    with redis.Redis(connection_pool=pool) as client, ThreadPoolExecutor(31) as threads:
        presence = Presence(client, Settings(timeout=PATIENT))
        token = presence.login("ada").token
        server.pause()
        try:
            calls = [threads.submit(presence.validate, token) for _ in range(30)]
            wait_for("two calls", lambda: len(pool._in_use_connections) == 2)
            own = threads.submit(client.ping)  # redis-py raises MaxConnectionsError at once if none is left
            wait_for("the site's call", lambda: own.done() or len(pool._in_use_connections) == 3)
        finally:
            server.resume()
        assert own.result()
        assert all(call.result() for call in calls)


@on("redis7-async")
@pytest.mark.parametrize("connections", [1, 2, 3])
@pytest.mark.parametrize(
    "pool_class", [redis.asyncio.ConnectionPool, redis.asyncio.BlockingConnectionPool, SitesAsyncPool]
)
def test_hundreds_of_tasks_share_the_pool_of_the_site(bed: Bed, pool_class: Any, connections: int) -> None:
    async def main() -> None:
        pool = pool_class.from_url(bed.url, max_connections=connections)
        async with redis.asyncio.Redis.from_pool(pool) as client:
            presence = AsyncPresence(client, Settings(namespace=bed.namespace, timeout=PATIENT))
            token = (await presence.login("ada")).token
            assert await client.ping()
            async with asyncio.timeout(PATIENT):
                validations = [asyncio.ensure_future(presence.validate(token)) for _ in range(100)]
                lists = [asyncio.ensure_future(presence.sessions("ada")) for _ in range(20)]
                for number, task in enumerate(lists):
                    if number % 3 == 0:
                        await asyncio.sleep(0)
                        task.cancel()
                assert all(await asyncio.gather(*validations))
                await asyncio.gather(*lists, return_exceptions=True)
                await client.client_kill_filter(_type="normal", skipme=True)
                assert await presence.validate(token)
                taken = [await pool.get_connection() for _ in range(connections)]
                for connection in taken:
                    await pool.release(connection)
            await presence.close()

    asyncio.run(main())


@on("redis7-sync")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a socket that redis-py had just opened
def test_a_thread_that_is_interrupted_gives_its_place_back(bed: Bed) -> None:
    """Also one that waits: it is interrupted as by Ctrl-C, in another thread."""
    with redis.Redis.from_url(bed.url, max_connections=1) as client:
        presence = Presence(client, Settings(namespace=bed.namespace, timeout=PATIENT))
        token = presence.login("ada").token
        stopping = threading.Event()
        interrupted = []

        def visit() -> None:
            try:
                while not stopping.is_set():
                    assert presence.validate(token)
            except KeyboardInterrupt as error:
                interrupted.append(str(error))

        for _ in range(size(3, 20)):
            threads = [threading.Thread(target=visit) for _ in range(20)]
            for thread in threads:
                thread.start()
            for thread in threads:
                time.sleep(0.01)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(thread.ident or 0), ctypes.py_object(KeyboardInterrupt)
                )
            time.sleep(0.1)
            stopping.set()
            for thread in threads:
                thread.join(PATIENT)
                assert not thread.is_alive()
            stopping.clear()
        assert interrupted
        assert presence.validate(token)


# -- time limits -------------------------------------------------------------------------------------------------------


def connect(url: str, **settings: Any) -> AsyncPresence:
    return AsyncPresence.from_url(url, Settings(namespace="crowd", **settings))


def test_during_a_stall_each_call_ends_by_its_own_limit_and_says_whether_it_may_have_run(server: Server) -> None:
    async def call(coroutine: Any) -> tuple[str, float]:
        began = time.monotonic()
        try:
            await coroutine
        except Exception as error:
            return type(error).__name__, time.monotonic() - began
        return "", time.monotonic() - began

    async def main() -> None:
        async with connect(server.url, timeout=0.5) as short, connect(server.url, timeout=1.5) as long:
            token = (await short.login("ada")).token
            assert await long.validate(token)
            server.pause()
            try:
                calls = [
                    call(made)
                    for client in (short, long)
                    for made in (
                        client.validate(token),
                        client.update(token, attributes={"a": 1}),
                        client.sessions("ada"),
                    )
                ]
                ends = await asyncio.gather(*calls)
            finally:
                server.resume()
            assert [name for name, _ in ends] == ["Unavailable", "OutcomeUnknown", "Unavailable"] * 2
            for limit, (_, seconds) in zip([0.5] * 3 + [1.5] * 3, ends, strict=True):
                assert limit * 0.9 < seconds < limit + 0.7
            assert await long.validate(token)

    asyncio.run(main())


def test_of_a_connection_that_breaks_reads_are_sent_again_and_changes_are_undecided(
    server: Server, loop: EventLoop
) -> None:
    with Proxy(server, loop) as proxy:

        async def main() -> None:
            async with connect(proxy.url, timeout=PATIENT) as presence:
                logins = await presence.login_many({"uid": f"u{n}"} for n in range(50))
                tokens = {login.session.uid: login.token for login in logins if isinstance(login, Login)}
                for _ in range(5):
                    proxy.delay = 0.1
                    reads = [asyncio.ensure_future(presence.validate(token)) for token in tokens.values()]
                    changes = [
                        asyncio.ensure_future(presence.update(token, attributes={"a": 1}))
                        for token in list(tokens.values())[:10]
                    ]
                    await asyncio.sleep(0.05)
                    proxy.cut()
                    proxy.delay = 0
                    for uid, validation in zip(tokens, await asyncio.gather(*reads), strict=True):
                        assert validation.session is not None
                        assert validation.session.uid == uid
                    for outcome in await asyncio.gather(*changes, return_exceptions=True):
                        assert isinstance(outcome, OutcomeUnknown)

        asyncio.run(main())


def test_no_call_is_written_to_an_idle_connection_before_its_ping_is_answered(server: Server, loop: EventLoop) -> None:
    """A proxy has dropped the connection silently: a PING is sent, and the calls that come meanwhile wait for it."""
    with Proxy(server, loop) as proxy, pytest.MonkeyPatch.context() as patch:
        patch.setattr("presence_core.transport.channel.IDLE_SECONDS", 0.2)

        async def main() -> None:
            async with connect(proxy.url, timeout=2.0) as presence:
                token = (await presence.login("ada")).token
                await asyncio.sleep(0.4)
                proxy.forget()
                changes = []
                for number in range(20):  # some of them while the PING is on its way
                    changes.append(asyncio.ensure_future(presence.update(token, attributes={f"a{number}": 1})))
                    await asyncio.sleep(0.005)
                assert all(await asyncio.gather(*changes))

        asyncio.run(main())


# -- a stall with thousands of callers ---------------------------------------------------------------------------------


def test_five_thousand_callers_during_a_stall_need_little_memory_and_are_served_in_order(server: Server) -> None:
    callers, stall = 5_000, 3.0

    async def main() -> None:
        async with connect(server.url, timeout=PATIENT) as presence:
            token = (await presence.login("ada")).token
            served: list[int] = []
            first: list[float] = []

            async def visit(number: int) -> None:
                assert await presence.validate(token)
                first.append(clock())
                served.append(number)

            await visit(-1)
            presence.internal.context.cache.look_at = inf  # otherwise a caller reads the layout first, and is later
            served.clear()
            first.clear()
            server.pause()
            try:
                tracemalloc.start()
                began = time.monotonic()
                tasks = [asyncio.ensure_future(visit(number)) for number in range(callers)]
                await asyncio.sleep(0.5)
                early, _ = tracemalloc.get_traced_memory()
                await asyncio.sleep(stall - (time.monotonic() - began))
                late, peak = tracemalloc.get_traced_memory()
                tracemalloc.stop()
            finally:
                server.resume()
            resumed = clock()
            await asyncio.gather(*tasks)
            assert peak < callers * 12_000
            assert late < early + 1_000_000
            assert served == sorted(served)
            assert first[0] - resumed < 0.1

    with FairClock() as clock:
        asyncio.run(main())


def test_callers_past_their_limit_are_unavailable_and_hear_which_limit_it_was(server: Server) -> None:
    async def main() -> None:
        async with connect(server.url, timeout=1.0) as presence:
            token = (await presence.login("ada")).token
            server.pause()
            try:
                began = clock()
                outcomes = await asyncio.gather(
                    *(presence.validate(token) for _ in range(5_000)), return_exceptions=True
                )
                seconds = clock() - began
            finally:
                server.resume()
            assert {type(outcome) for outcome in outcomes} == {Unavailable}
            assert seconds < 3
            assert any("1,000 calls" in str(outcome) for outcome in outcomes)
            await asyncio.sleep(0.3)
            assert await presence.validate(token)

    with FairClock() as clock:
        asyncio.run(main())


def test_callers_who_leave_during_a_stall_leave_nothing_behind(server: Server) -> None:
    async def main() -> None:
        async with connect(server.url, timeout=PATIENT) as presence:
            token = (await presence.login("ada")).token
            assert await presence.validate(token)
            server.pause()
            try:
                tracemalloc.start()

                async def leave() -> None:
                    with pytest.raises(TimeoutError):
                        await asyncio.wait_for(presence.validate(token), 0.05)

                sizes = []
                for _ in range(size(6, 50)):
                    await asyncio.gather(*(leave() for _ in range(500)))
                    sizes.append(tracemalloc.get_traced_memory()[0])
                tracemalloc.stop()
                assert sizes[-1] < sizes[2] + 1_000_000
            finally:
                server.resume()
            assert await presence.validate(token)

    asyncio.run(main())
