"""JWTs that a kick reaches: what has ended is known in memory, soon, surely, and with its age."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from presence_core import AsyncPresence, InvalidArgument, Login, Presence, Settings
from presence_core.web.flow import drive
from presence_core.web.jwt import RevocationCache
from tests.conftest import Bed, on
from tests.facade import P
from tests.fair_clock import PATIENT
from tests.servers import Server, missing, redis_binary, valkey_binary


def until(check: Callable[[], Any]) -> None:
    end = time.monotonic() + PATIENT
    while not check():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


@on("valkey-sync", "cluster-sync")
def test_every_end_is_known_within_a_moment_and_nothing_else_is(p: P) -> None:
    jtis = {who: p.login(who).session.session_id for who in ("ada", "bob", "cyd", "dan")}
    with RevocationCache(p) as cache:
        assert [cache.is_revoked(jti) for jti in jtis.values()] == [False] * 4
        p.kick("ada", by="staff", reason="test")
        until(lambda: cache.is_revoked(jtis["ada"]))
        p.logout("bob", jtis["bob"])
        p.login("cyd", session_id="session-2")
        until(lambda: cache.is_revoked(jtis["bob"]))
        assert not cache.is_revoked(jtis["cyd"])
        assert not cache.is_revoked("never-there")
        until(lambda: cache.stale_for < 1)


@on("valkey-sync", "cluster-sync")
def test_what_ended_before_the_cache_began_is_known_from_the_start(p: P) -> None:
    jtis = [p.login(f"u{number}").session.session_id for number in range(30)]
    for number in range(15):
        p.kick(f"u{number}", by="staff", reason="test")
    with RevocationCache(p) as cache:
        assert [cache.is_revoked(jti) for jti in jtis] == [True] * 15 + [False] * 15
        assert len(cache) == 15


@on("valkey-sync")
def test_lost_events_are_made_good(bed: Bed) -> None:
    p = bed.connect(max_events=100)
    login = p.login("ada")
    cache = RevocationCache(p)
    with cache:
        until(lambda: cache.stale_for < 1)
    p.kick("ada", by="staff", reason="test")
    p.login_many({"uid": f"u{number}"} for number in range(2000))  # the kick's event goes to the cap
    assert not any(event.uid == "ada" for event in p.events(limit=1000))
    with cache:
        until(lambda: cache.is_revoked(login.session.session_id))
        until(lambda: not cache.is_stale and not cache.is_revoked("never-there"))


@on("valkey-sync")
def test_everybody_out_is_felt_before_the_sweep_has_told_of_each(p: P) -> None:
    before = p.login("ada").session.session_id
    with RevocationCache(p) as cache:
        p.revoke_before(by="staff", reason="keys leaked")
        after = p.login("ada").session.session_id
        until(lambda: cache.is_revoked(before, "ada"))
        assert not cache.is_revoked(after, "ada")
        assert cache.is_revoked(after), "without a uid nobody can be asked"
        while p.sweep().has_more:
            pass
        until(lambda: not cache.is_revoked(after))
        assert cache.is_revoked(before)


@on("valkey-sync")
def test_everybody_out_is_felt_until_each_end_has_been_read(p: P) -> None:
    """The sweeps are through, their events are more than the cache reads at once."""
    logins = p.login_many([{"uid": f"u{number}"} for number in range(1500)])
    sessions = [login.session for login in logins if isinstance(login, Login)]
    cache = RevocationCache(p)
    cache._started = True  # but by no thread: each step is taken here

    def step() -> bool:
        cache._counted_at = float("-inf")
        return drive(cache._step(), p)

    while step():
        pass
    assert not any(cache.is_revoked(one.session_id) for one in sessions)
    p.revoke_before(by="staff", reason="keys leaked")
    step()
    while p.sweep().has_more:
        pass
    assert step(), "this was the first thousand"
    assert all(cache.is_revoked(one.session_id, one.uid) for one in sessions)
    while step():
        pass
    assert not cache.is_revoked("never-there")


@on("valkey-sync")
def test_a_clock_of_redis_that_leaps_ahead_revives_no_jwt(p: P) -> None:
    """A JWT expires by the site's clock: what that has not let expire, a leap must not let go of."""
    kicked = p.login("ada").session.session_id
    p.kick("ada", by="staff", reason="test")
    p.advance(7200)
    with RevocationCache(p, keep=3600) as cache:
        assert cache.is_revoked(kicked, "ada")


@on("valkey-sync")
def test_more_ends_than_are_listed_are_asked_of_redis(bed: Bed) -> None:
    p = bed.connect(max_ended=10)
    sessions = [p.login(f"u{number}").session for number in range(40)]
    live = p.login("ada").session
    for one in sessions:
        p.kick(one.uid, by="staff", reason="test")
    while p.sweep().has_more:
        pass
    assert p.ended().total == 10
    now = [0.0]
    with RevocationCache(p, keep=60) as cache:
        assert all(cache.is_revoked(one.session_id, one.uid) for one in sessions)
        assert not cache.is_revoked(live.session_id, live.uid)
        assert cache.is_revoked(live.session_id), "without a uid nobody can be asked"
        cache._clock = lambda: time.monotonic() + now[0]
        now[0] += 61
        until(lambda: not cache.is_revoked(live.session_id))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    binary = valkey_binary() or redis_binary() or missing("any Redis server")
    with Server.start(binary, tmp_path, "--appendonly", "yes", "--appendfsync", "always", port=True) as running:
        yield running


def test_while_redis_is_away_it_answers_until_it_is_stale_and_then_goes_on_where_it_was(server: Server) -> None:
    with (
        Presence.from_url(server.url, Settings(timeout=0.2)) as presence,
        Presence.from_url(server.url, Settings(timeout=PATIENT)) as staff,
    ):
        live, kicked = staff.login("ada").session.session_id, staff.login("eve").session.session_id
        now = [0.0]
        closed, opened = RevocationCache(presence, max_stale=5), RevocationCache(presence, max_stale=5, on_stale="open")
        with closed, opened:
            for cache in (closed, opened):
                until(lambda cache=cache: not cache.is_stale)  # type: ignore[misc]
                cache._clock = lambda: time.monotonic() + now[0]
            server.kill()
            time.sleep(0.3)
            assert not closed.is_revoked(live)
            now[0] += 6
            assert closed.stale_for > 5
            assert (closed.is_revoked(live), opened.is_revoked(live)) == (True, False)
            server.restart()
            staff.kick("eve", by="staff", reason="test")
            until(lambda: closed.is_revoked(kicked) and not closed.is_revoked(live))
            until(lambda: opened.is_revoked(kicked))


def test_a_cache_that_never_read_anything_revokes_everything() -> None:
    with Presence.from_url("redis://127.0.0.1:1", Settings(timeout=0.1)) as presence:
        cache = RevocationCache(presence)
        cache.start(wait=0.1)
        assert cache.is_revoked("session-1")
        assert cache.stale_for == float("inf")
        cache.close()


@on("valkey-sync")
def test_with_asyncio_a_task_keeps_it(p: P, bed: Bed) -> None:
    login = p.login("ada")
    old = p.login("eve").session.session_id
    p.kick("eve", by="staff", reason="test")

    async def site() -> None:
        async with AsyncPresence.from_url(bed.url, Settings(bed.namespace, timeout=PATIENT)) as presence:
            async with RevocationCache(presence) as cache:
                assert cache.is_revoked(old)
                assert not cache.is_revoked(login.session.session_id)
                await presence.kick("ada", by="staff", reason="test")
                end = time.monotonic() + PATIENT
                while not cache.is_revoked(login.session.session_id):
                    assert time.monotonic() < end
                    await asyncio.sleep(0.01)
            with pytest.raises(RuntimeError):
                cache.start()

    asyncio.run(site())


@on("valkey-sync")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_reads_for_itself(p: P) -> None:
    old, live = p.login("ada").session.session_id, p.login("eve").session.session_id
    p.kick("ada", by="staff", reason="test")
    with RevocationCache(p) as cache:
        child = os.fork()
        if child == 0:
            ok = cache.is_revoked(live)  # nothing is known yet
            end = time.monotonic() + PATIENT
            while cache.is_revoked(live) and time.monotonic() < end:
                time.sleep(0.01)
            os._exit(0 if ok and cache.is_revoked(old) and not cache.is_revoked(live) else 1)
        assert os.waitpid(child, 0)[1] == 0


@on("valkey-sync")
def test_what_is_over_for_long_is_forgotten(p: P) -> None:
    for number in range(20):
        p.login(f"u{number}")
        p.kick(f"u{number}", by="staff", reason="test")
    cache = RevocationCache(p, keep=60)
    with cache:
        assert len(cache) == 20
    cache._clock = lambda: time.monotonic() + 61
    cache._agree()
    assert len(cache) == 0


def test_bad_arguments_are_refused_in_one_sentence() -> None:
    with Presence.from_url("redis://127.0.0.1:1", Settings(keep_logout=600)) as presence:
        for options, sentence in (
            ({"keep": 5}, "keep must be a whole number from 60 to 86400."),
            ({"keep": 3600}, "keep must be at most 600, for which Settings keep tombstones."),
            ({"keep": 600, "max_stale": 0}, "max_stale must be 1 to 3600 seconds."),
            ({"keep": 600, "on_stale": "x"}, 'on_stale must be "closed" or "open".'),
        ):
            with pytest.raises(InvalidArgument) as caught:
                RevocationCache(presence, **options)
            assert str(caught.value) == sentence
    unlisted = Presence.from_url("redis://127.0.0.1:1", Settings(max_ended=0))
    with unlisted, pytest.raises(InvalidArgument, match=r"^max_ended must be more than 0"):
        RevocationCache(unlisted)
    with pytest.raises(InvalidArgument):
        RevocationCache("redis://")  # type: ignore[arg-type]
