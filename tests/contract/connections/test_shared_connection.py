"""AsyncPresence sends the calls of an event loop over one connection: no caller fails, waits for a large reply of
another, or gets the reply of another."""

from __future__ import annotations

import asyncio
import importlib
import random
import subprocess
import sys
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from presence_core import AsyncPresence, Login, SessionFilter, Settings, Unavailable
from tests.conftest import Bed, on
from tests.support.facade import EventLoop
from tests.support.fair_clock import PATIENT
from tests.support.faults.proxy import Proxy
from tests.support.servers import Server, missing, redis_binary, wait_for
from tests.support.soak import size

WORDS = "abcdefghijklmnopqrstuvwxyz"


def run(main: Coroutine[Any, Any, Any], loop: str = "asyncio") -> None:
    """Run it on a loop of this kind."""
    factory: Callable[[], Any] = importlib.import_module(loop).new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main)


def connect(bed: Bed, url: str = "", **settings: Any) -> AsyncPresence:
    options: dict[str, Any] = {"namespace": bed.namespace, "timeout": PATIENT} | settings
    chosen = Settings(**options)
    return AsyncPresence.from_url(url or bed.url, chosen)


async def log_in(presence: AsyncPresence, count: int) -> dict[str, str]:
    """Users of this number with their tokens. Each has their own name in the attributes of their session."""
    rows = [{"uid": f"u{number}", "attributes": {"mark": f"u{number}"}} for number in range(count)]
    return {login.session.uid: login.token for login in await presence.login_many(rows) if isinstance(login, Login)}


async def check_mark(presence: AsyncPresence, uid: str, token: str) -> None:
    validation = await presence.validate(token)
    assert validation.session is not None
    assert (validation.session.uid, validation.session.attributes) == (uid, {"mark": uid})


def connections(bed: Bed) -> int:
    """How many normal connections the server has, without the one that asks."""
    assert not bed.is_cluster
    return len(bed.raw.client_list(_type="normal")) - 1


@on("redis7-async", "cluster-async", soak=("valkey-async", "sentinel-async"))
@pytest.mark.parametrize("in_flight", [256, 5_000])
def test_no_validation_fails_for_want_of_a_connection(bed: Bed, in_flight: int) -> None:
    async def main() -> None:
        async with connect(bed) as presence:
            tokens = await log_in(presence, 50)
            users = list(tokens.items()) * (in_flight // 50 + 1)
            await asyncio.gather(*(check_mark(presence, uid, token) for uid, token in users[:in_flight]))

    run(main())


@on("redis7-async")
def test_thousands_of_calls_need_a_few_connections(bed: Bed) -> None:
    before = connections(bed)

    async def main() -> None:
        async with connect(bed) as presence:
            tokens = await log_in(presence, 50)
            await asyncio.gather(*(check_mark(presence, uid, token) for uid, token in list(tokens.items()) * 20))
            assert connections(bed) - before <= 2

    run(main())


# -- callers who leave -------------------------------------------------------------------------------------------------


async def leave_at_random(presence: AsyncPresence, tokens: dict[str, str], count: int, seed: int) -> tuple[int, int]:
    """Start this many calls and cancel most of them at some point. Returns how many were answered, and how many had a
    connection alone."""
    chance, users = random.Random(seed), list(tokens.items())
    answered = alone = 0

    async def call(uid: str, token: str) -> None:
        nonlocal answered, alone
        match chance.randrange(20):
            case 0:
                alone += 1
                found = await presence.sessions(uid)
                assert [session.attributes for session in found] == [{"mark": uid}]
            case 1:
                updated = await presence.update(token, attributes={"mark": uid})
                assert updated.session is not None
                assert updated.session.uid == uid
            case 2:
                assert await presence.is_online(uid)
                assert not await presence.is_online(f"{uid}-no")
            case _:
                await check_mark(presence, uid, token)
        answered += 1

    async def hurry(uid: str, token: str) -> None:
        try:
            await asyncio.wait_for(call(uid, token), chance.uniform(0, 0.02))
        except TimeoutError:
            pass

    async def visitor(calls: int) -> None:
        for _ in range(calls):
            uid, token = chance.choice(users)
            if chance.random() < 0.3:
                await hurry(uid, token)
                continue
            task = asyncio.ensure_future(call(uid, token))
            for _ in range(chance.randrange(6)):
                await asyncio.sleep(0)
            if chance.random() < 0.3:
                await asyncio.sleep(chance.uniform(0, 0.005))
            if chance.random() < 0.9:
                task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                pass

    await asyncio.gather(*(visitor(count // 50) for _ in range(50)))
    return answered, alone


@on("redis7-async", "cluster-async", soak=("valkey-async", "sentinel-async"))
@pytest.mark.parametrize("variant", ["asyncio-2", "uvloop-3", "asyncio-3", "uvloop-2"])
def test_callers_who_leave_cost_no_one_their_reply_or_the_connection(bed: Bed, variant: str) -> None:
    loop, _, protocol = variant.partition("-")
    if loop == "uvloop":
        pytest.importorskip("uvloop")

    async def main() -> None:
        url = bed.url + ("&" if "?" in bed.url else "?") + f"protocol={protocol}"
        async with connect(bed, url) as presence:
            tokens = await log_in(presence, 50)
            received = () if bed.is_cluster else bed.raw.info("stats")["total_connections_received"]
            answered, alone = await leave_at_random(presence, tokens, size(5_000, 100_000), seed=7)
            assert answered
            if not bed.is_cluster:
                assert bed.raw.info("stats")["total_connections_received"] - received <= 2 + alone
            await asyncio.gather(*(check_mark(presence, uid, token) for uid, token in tokens.items()))

    run(main(), loop)


@on("redis7-async")
def test_callers_of_get_who_leave_cost_no_connection_either(bed: Bed) -> None:
    async def main() -> None:
        async with connect(bed) as presence:
            [session] = await presence.sessions((await presence.login("ada")).session.uid)
            received = bed.raw.info("stats")["total_connections_received"]
            for _ in range(20):
                calls = [asyncio.ensure_future(presence.get("ada", session.session_id)) for _ in range(10)]
                await asyncio.sleep(0)
                for call in calls[::2]:
                    call.cancel()
                assert [await call for call in calls[1::2]] == [session] * 5
            assert bed.raw.info("stats")["total_connections_received"] == received

    run(main())


@on("redis7-async")
def test_replies_that_come_in_pieces_go_to_their_callers(bed: Bed, tmp_path: Any, loop: EventLoop) -> None:
    chance = random.Random(3)
    with (
        Server.start(redis_binary() or missing("redis-server on PATH"), tmp_path, port=True) as server,
        Proxy(server, loop) as proxy,
    ):
        proxy.piece = lambda: chance.choice((1, 2, 7, 100, 4_000))

        async def main() -> None:
            async with connect(bed, proxy.url) as presence:
                tokens = await log_in(presence, 50)
                answered, _ = await leave_at_random(presence, tokens, size(2_000, 20_000), seed=8)
                assert answered
                await asyncio.gather(*(check_mark(presence, uid, token) for uid, token in tokens.items()))

        run(main())


# -- large replies and calls that wait ---------------------------------------------------------------------------------


async def page_of_hundreds(presence: AsyncPresence) -> None:
    page = await presence.list_sessions(limit=500)
    assert len(page.items) == 500


async def every_session(presence: AsyncPresence) -> None:
    assert len([session async for session in presence.iter_sessions()]) > 2_000


async def export(presence: AsyncPresence) -> None:
    assert len((await presence.export_person("bot"))["sessions"]) == 600


async def bulk_kick(presence: AsyncPresence) -> None:
    result = await presence.kick_where(SessionFilter(app="old"), by="staff", reason="test", expected=1_000)
    assert result.count == 1_000


async def kick_of_a_user(presence: AsyncPresence) -> None:
    assert (await presence.kick("bot", by="staff", reason="test")).count == 600


async def logins(presence: AsyncPresence) -> None:
    await presence.login_many({"uid": f"new{n}", "attributes": {"text": "x" * 1_000}} for n in range(300))


async def facets(presence: AsyncPresence) -> None:
    assert len(await presence.facets("app")) > 2_000


async def events(presence: AsyncPresence) -> None:
    found, after = 0, None
    while page := await presence.events(after=after, limit=1_000):
        found, after = found + len(page), page[-1].cursor
    assert found > 3_000


LARGE = [page_of_hundreds, every_session, export, bulk_kick, kick_of_a_user, logins, facets, events]


@on("redis7-async")
@pytest.mark.parametrize("work", LARGE, ids=lambda work: work.__name__)
def test_large_reads_and_writes_have_a_connection_of_their_own(
    bed: Bed, work: Callable[[AsyncPresence], Coroutine[Any, Any, None]], tmp_path: Any, loop: EventLoop
) -> None:
    with (
        Server.start(redis_binary() or missing("redis-server on PATH"), tmp_path, port=True) as server,
        Proxy(server, loop) as proxy,
    ):

        async def main() -> None:
            async with connect(bed, server.url) as presence:
                await presence.login_many({"uid": "bot", "attributes": {"text": "x" * 200}} for _ in range(600))
                await presence.login_many({"uid": f"old{n}", "app": "old"} for n in range(1_000))
                await presence.login_many({"uid": f"own{n}", "app": f"app-{n}"} for n in range(2_000))
                token = (await presence.login("ada")).token
            async with connect(bed, proxy.url) as presence:
                assert await presence.validate(token)
                shared = max(proxy.passed, key=lambda number: proxy.passed[number])
                before = proxy.passed[shared]
                await work(presence)
                total = sum(proxy.passed.values())
                assert total > 60_000, "the test is too small"
                assert proxy.passed[shared] - before < 20_000

        run(main())


@on("sentinel-async")
def test_a_call_that_waits_for_replicas_has_a_connection_of_its_own(bed: Bed) -> None:
    """By the commands that a server saw last on each connection."""

    async def main() -> None:
        async with connect(bed) as plain:
            tokens = await log_in(plain, 20)
        async with connect(bed, confirm_replicas=2, confirm_timeout=2_000, confirm_hold=0) as presence:
            visits = [asyncio.ensure_future(check_mark(presence, uid, token)) for uid, token in tokens.items()]
            kicks = [asyncio.ensure_future(presence.kick(uid, by="staff", reason="test")) for uid in list(tokens)[:2]]
            for kick in await asyncio.gather(*kicks):
                assert kick.confirmed
            await asyncio.gather(*visits, return_exceptions=True)  # two of the users may have ended
            assert await presence.validate(tokens["u9"])
            last = [client["cmd"] for client in bed.raw.client_list(_type="normal")]
            assert [word for word in last if word.startswith("wait")]
            assert [word for word in last if word.startswith("evalsha")]

    run(main())


# -- loops, forks and ends ---------------------------------------------------------------------------------------------


@on("redis7-async", "sentinel-async")
def test_a_client_serves_event_loops_in_many_threads_and_after_each_other(bed: Bed) -> None:
    presence = connect(bed)

    async def visit(number: int) -> None:
        tokens = {}
        for place in range(5):
            uid = f"u{number}-{place}"
            tokens[uid] = (await presence.login(uid, attributes={"mark": uid})).token
        await asyncio.gather(*(check_mark(presence, uid, token) for uid, token in list(tokens.items()) * 10))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda number: asyncio.run(visit(number)), range(12)))
    run(visit(99))

    async def close() -> None:
        await presence.close()

    run(close())


@on("redis7-async")
def test_calls_in_flight_at_close_end_at_once_and_nothing_stays_open(bed: Bed) -> None:
    before = connections(bed)

    async def main() -> None:
        presence = connect(bed)
        tokens = await log_in(presence, 20)
        for _ in range(10):
            async with presence:  # opens it again
                assert await presence.validate(tokens["u1"])
                calls = [asyncio.ensure_future(presence.validate(token)) for token in tokens.values()]
                calls += [asyncio.ensure_future(presence.sessions(uid)) for uid in tokens]  # type: ignore[arg-type]
                for _ in range(2):
                    await asyncio.sleep(0)
            for outcome in await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), PATIENT / 2):
                assert isinstance(outcome, Unavailable) or outcome

    run(main())
    wait_for("no connection left", lambda: connections(bed) <= before)


UNCLOSED = """
import asyncio, gc, os, sys, warnings
from presence_core import AsyncPresence, Settings

async def use(presence):
    token = (await presence.login("ada")).token
    assert all(await asyncio.gather(*(presence.validate(token) for _ in range(20))))
    assert await presence.sessions("ada")

async def drop():
    for _ in range(5):
        await use(AsyncPresence.from_url(sys.argv[1], settings))
        gc.collect()
        await asyncio.sleep(0.01)

async def fork():
    await use(kept)
    child = os.fork()
    if not child:
        asyncio.events._set_running_loop(None)
        try:
            asyncio.run(use(kept))
        except BaseException as error:
            os.write(2, repr(error).encode())
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    await use(kept)

settings = Settings(namespace=sys.argv[2], timeout=20)
kept = AsyncPresence.from_url(sys.argv[1], settings)
for _ in range(5):
    asyncio.run(use(kept))
asyncio.run(drop())
asyncio.run(fork())
del kept
gc.collect()
"""


@on("redis7-async")
def test_a_client_that_was_never_closed_warns_of_nothing_and_leaves_no_connection(bed: Bed) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "always::ResourceWarning", "-c", UNCLOSED, bed.url, bed.namespace],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")


# -- a kick ------------------------------------------------------------------------------------------------------------


async def kick_among_validations(presence: AsyncPresence, other: AsyncPresence, rounds: int) -> None:
    """After a kick has returned, no validation that begins then passes, while 256 others are in flight."""
    tokens = await log_in(presence, 40)
    stopping = False

    async def visit(number: int) -> None:
        uid, token = list(tokens.items())[20 + number % 20]
        while not stopping:
            await check_mark(presence, uid, token)

    visits = [asyncio.ensure_future(visit(number)) for number in range(256)]
    try:
        await asyncio.sleep(0.05)
        for uid, token in list(tokens.items())[:rounds]:
            by, late = (presence, other) if len(uid) % 2 else (other, presence)
            early = [asyncio.ensure_future(presence.validate(token)) for _ in range(20)]
            assert await by.kick(uid, by="staff", reason="test")
            for validation in await asyncio.gather(*(each.validate(token) for each in (by, late) * 5)):
                assert not validation
            await asyncio.gather(*early)
    finally:
        stopping = True
        await asyncio.gather(*visits)


@on("redis7-async", "cluster-async", soak=("valkey-async", "sentinel-async"))
def test_after_a_kick_has_returned_no_later_validation_passes_among_hundreds(bed: Bed) -> None:
    async def main() -> None:
        async with connect(bed) as presence, connect(bed) as other:
            await kick_among_validations(presence, other, size(3, 20))

    run(main())
