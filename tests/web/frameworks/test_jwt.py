"""JWTs and kicks: the cache knows ended sessions in memory, soon and reliably, and knows its own age."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from presence_core import AsyncPresence, InvalidArgument, Login, Presence, Session, Settings
from presence_core.drive_generators import drive
from presence_core.heartbeat_buffer import HeartbeatBuffer
from presence_core.web.jwt import RevocationCache, ended_sessions, revocation_cache
from presence_core.web.jwt.ended_sessions import NEVER
from tests.conftest import Bed, on
from tests.support.facade import P
from tests.support.fair_clock import PATIENT
from tests.support.monitor import Monitor
from tests.support.servers import KEEPS_ALL, Server, missing, redis_binary, valkey_binary


def until(check: Callable[[], Any]) -> None:
    end = time.monotonic() + PATIENT
    while not check():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


@on("valkey-sync", "cluster-sync")
def test_every_end_is_known_within_a_second_and_no_live_session_is_revoked(p: P) -> None:
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
def test_sessions_that_ended_before_the_cache_began_are_known_from_the_start(p: P) -> None:
    jtis = [p.login(f"u{number}").session.session_id for number in range(30)]
    for number in range(15):
        p.kick(f"u{number}", by="staff", reason="test")
    with RevocationCache(p) as cache:
        assert [cache.is_revoked(jti) for jti in jtis] == [True] * 15 + [False] * 15
        assert len(cache) == 15


@on("valkey-sync")
def test_a_cache_that_is_started_again_knows_what_ended_meanwhile(p: P) -> None:
    jti = p.login("ada").session.session_id
    cache = RevocationCache(p)
    with cache:
        assert not cache.is_revoked(jti)
    p.kick("ada", by="staff", reason="test")
    with cache:
        assert cache.is_revoked(jti)


@on("valkey-sync", "cluster-sync")
def test_a_session_that_must_sign_in_again_is_revoked_until_it_has(p: P) -> None:
    logins = {who: p.login(who) for who in ("ada", "bob")}
    jtis = {who: login.session.session_id for who, login in logins.items()}
    with RevocationCache(p) as cache:
        p.require_sign_in("ada", by="staff", reason="test")
        until(lambda: cache.is_revoked(jtis["ada"], "ada"))
        assert not cache.is_revoked(jtis["bob"], "bob")
        with RevocationCache(p) as later:
            assert [later.is_revoked(jti, who) for who, jti in jtis.items()] == [True, False], "known from the start"
        p.reauthenticated(logins["ada"].token)
        until(lambda: not cache.is_revoked(jtis["ada"], "ada"))
        with RevocationCache(p) as later:
            assert not later.is_revoked(jtis["ada"], "ada")
        p.require_sign_in("ada", by="staff", reason="test")
        p.kick("ada", by="staff", reason="test")
        until(lambda: cache.is_revoked(jtis["ada"], "ada"))


@on("valkey-sync")
def test_redis_is_asked_where_the_event_of_a_required_sign_in_was_lost(bed: Bed) -> None:
    p = bed.connect(max_events=100)
    demanded, other = p.login("ada").session, p.login("bob").session
    p.require_sign_in("ada", by="staff", reason="test")
    p.login_many({"uid": f"u{number}"} for number in range(2000))  # the cap removes the event
    assert not any(event.uid == "ada" for event in p.events(limit=1000))
    with RevocationCache(p) as cache:
        assert cache.is_revoked(demanded.session_id, "ada")
        assert not cache.is_revoked(other.session_id, "bob")


@on("valkey-sync")
def test_lost_events_are_recovered(bed: Bed) -> None:
    p = bed.connect(max_events=100)
    login = p.login("ada")
    cache = RevocationCache(p)
    with cache:
        until(lambda: cache.stale_for < 1)
    p.kick("ada", by="staff", reason="test")
    p.login_many({"uid": f"u{number}"} for number in range(2000))  # the cap removes the kick's event
    assert not any(event.uid == "ada" for event in p.events(limit=1000))
    with cache:
        until(lambda: cache.is_revoked(login.session.session_id))
        until(lambda: not cache.is_stale and not cache.is_revoked("never-there"))


@on("valkey-sync")
def test_a_revocation_of_all_is_known_before_the_sweep_has_reported_each_end(
    p: P, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ended_sessions, "COUNT_INTERVAL", 0.1)
    before = p.login("ada").session.session_id
    with RevocationCache(p) as cache:
        p.revoke_before(by="staff", reason="keys leaked")
        after = p.login("ada").session.session_id
        until(lambda: cache.is_revoked(before, "ada"))
        assert not cache.is_revoked(after, "ada")
        assert cache.is_revoked(after), "without a uid Redis cannot be asked"
        while p.sweep().has_more:
            pass
        until(lambda: not cache.is_revoked(after))
        assert cache.is_revoked(before)


@on("valkey-sync", "cluster-sync")
def test_a_user_who_logs_in_after_a_revocation_is_accepted_at_once(p: P) -> None:
    """By the login time in the JWT, without a sweep and without a call to Redis."""
    before = p.login("ada").session
    with RevocationCache(p) as cache:
        assert not cache.is_revoked(before.session_id, login_at=before.login_at)
        p.revoke_before(by="staff", reason="keys leaked")
        after = p.login("ada").session
        until(lambda: cache.is_revoked(before.session_id, login_at=before.login_at.timestamp()))
        assert not cache.is_revoked(after.session_id, login_at=after.login_at.timestamp())
    with RevocationCache(p) as late:  # the watermark is older than this cache
        assert late.is_revoked(before.session_id, login_at=before.login_at)
        assert not late.is_revoked(after.session_id, login_at=after.login_at)


@on("cluster-sync")
def test_a_watermark_that_reached_only_some_shards_is_known(p: P, bed: Bed) -> None:
    """revoke_before was interrupted after a shard that is not the first."""
    login = p.login("ada").session
    keys = p.context.keys
    shard = keys.shard("ada")
    assert shard.tag != keys.shards[0].tag
    at = str(round(login.login_at.timestamp() * 1000))
    bed.raw.hset(shard.meta, mapping={"revoked": at, "revoked_at": at})
    with RevocationCache(p) as cache:
        assert cache.is_revoked(login.session_id, login_at=login.login_at)
        after = p.login("bob").session
        assert not cache.is_revoked(after.session_id, login_at=after.login_at)


def test_a_cache_that_is_too_old_still_knows_the_watermark() -> None:
    with Presence.from_url("redis://127.0.0.1:1", Settings(timeout=0.1)) as presence:
        cache = RevocationCache(presence, on_stale="open")
        cache._started, cache._ended.watermark = True, 1_000_000
        assert cache.is_revoked("session-1", login_at=1000.0)
        assert not cache.is_revoked("session-1", login_at=1000.001)
        for odd in (True, "1000", float("nan"), -1):
            assert not cache.is_revoked("session-1", login_at=odd), "never raises"  # type: ignore[arg-type]


@on("valkey-sync")
def test_a_revocation_of_all_is_known_until_each_end_has_been_read(p: P) -> None:
    """The sweeps have finished, and their events are more than the cache reads at once."""
    logins = p.login_many([{"uid": f"u{number}"} for number in range(1500)])
    sessions = [login.session for login in logins if isinstance(login, Login)]
    cache = RevocationCache(p)
    cache._started = True  # but not in a thread: the test takes each step

    def step() -> bool:
        cache._ended._counted_at = NEVER
        return drive(cache._ended.step(), lambda call: call(p))

    while step():
        pass
    assert not any(cache.is_revoked(session.session_id) for session in sessions)
    p.revoke_before(by="staff", reason="keys leaked")
    step()
    while p.sweep().has_more:
        pass
    assert step(), "this was the first thousand"
    assert all(cache.is_revoked(session.session_id, session.uid) for session in sessions)
    while step():
        pass
    assert not cache.is_revoked("never-there")


@on("valkey-sync")
def test_a_clock_jump_of_redis_revives_no_jwt(p: P) -> None:
    """A JWT expires by the site's clock: an end must be kept until then, even if the clock of Redis jumps."""
    kicked = p.login("ada").session.session_id
    p.kick("ada", by="staff", reason="test")
    p.advance(7200)
    with RevocationCache(p, keep=3600) as cache:
        assert cache.is_revoked(kicked, "ada")


@on("valkey-sync")
def test_redis_is_asked_for_ends_beyond_the_cached_number(bed: Bed) -> None:
    p = bed.connect(max_ended=10)
    sessions = [p.login(f"u{number}").session for number in range(40)]
    live = p.login("ada").session
    for session in sessions:
        p.kick(session.uid, by="staff", reason="test")
    while p.sweep().has_more:
        pass
    assert p.ended().total == 10
    now = [0.0]
    with RevocationCache(p, keep=60) as cache:
        assert all(cache.is_revoked(session.session_id, session.uid) for session in sessions)
        assert not cache.is_revoked(live.session_id, live.uid)
        assert cache.is_revoked(live.session_id), "without a uid Redis cannot be asked"
        cache.clock = lambda: time.monotonic() + now[0]
        now[0] += 61
        until(lambda: not cache.is_revoked(live.session_id))


# -- heartbeats --------------------------------------------------------------------------------------------------------


def stays(p: P, cache: RevocationCache, session: Session, ask: Callable[[], bool]) -> None:
    """A user whose requests carry a JWT is active for longer than the idle timeout."""
    ahead = [0.0]
    cache.clock = lambda: time.monotonic() + ahead[0]

    def seen_since(before: datetime) -> bool:
        return p.sessions(session.uid)[0].last_seen > before

    for _ in range(3):
        p.advance(session.idle_timeout / 2)
        ahead[0] += session.idle_timeout / 2
        before = p.sessions(session.uid)[0].last_seen
        until(lambda: not cache.is_stale)
        assert not ask()
        until(partial(seen_since, before))
    p.sweep()
    assert p.counts().sessions == 1


@pytest.fixture
def quick_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(revocation_cache, "HeartbeatBuffer", partial(HeartbeatBuffer, interval=0.01))


@on("valkey-sync", "cluster-sync")
@pytest.mark.usefixtures("quick_heartbeats")
def test_an_active_user_does_not_expire(p: P) -> None:
    session = p.login("ada").session
    with RevocationCache(p) as cache:
        stays(p, cache, session, lambda: cache.is_revoked(session.session_id, "ada"))


@on("valkey-sync")
@pytest.mark.usefixtures("quick_heartbeats")
@pytest.mark.parametrize("thread", ["of the loop", "of a pool"])
def test_with_asyncio_an_active_user_does_not_expire(p: P, bed: Bed, thread: str) -> None:
    """A framework may call a plain function in a pool of threads, where no loop runs."""
    session, run = p.login("ada").session, bed.loop.run

    async def begin() -> tuple[AsyncPresence, RevocationCache]:
        presence = AsyncPresence.from_url(bed.url, Settings(bed.namespace, timeout=PATIENT))
        bed.time.adopt(presence.internal.context)
        cache = RevocationCache(presence)
        await cache.astart()
        return presence, cache

    presence, cache = run(begin())

    def ask() -> bool:
        look = partial(cache.is_revoked, session.session_id, "ada")
        return bed.loop.call(look) if thread == "of the loop" else look()

    try:
        stays(p, cache, session, ask)
    finally:
        run(cache.aclose())
        run(presence.close())


@on("valkey-sync")
def test_a_check_makes_no_round_trip_and_many_checks_one_heartbeat(p: P, bed: Bed) -> None:
    sessions = [p.login(f"u{number}").session for number in range(3)]
    with RevocationCache(p) as cache:
        before = p.sessions("u0")[0].last_seen
        time.sleep(0.01)
        with Monitor(bed.raw) as monitor:
            for _ in range(200):
                assert not any(cache.is_revoked(session.session_id, session.uid) for session in sessions)
                assert not cache.is_revoked(sessions[0].session_id)
            until(lambda: p.sessions("u0")[0].last_seen > before)
        noted = [line for line in monitor.lines if line.words[0].upper() == b"EVALSHA" and b"u0" in line.words]
        assert len(noted) == 1
        keys = b" ".join(noted[0].words)
        assert all(f":session:{session.ref} ".encode() in keys for session in sessions), "all of them in one call"


@on("valkey-sync")
def test_a_refused_or_only_checked_session_is_not_seen(p: P) -> None:
    kicked, idle = p.login("ada").session, p.login("bob").session
    with RevocationCache(p) as cache:
        p.kick("ada", by="staff", reason="test")
        until(lambda: cache.is_revoked(kicked.session_id))
        assert cache.is_revoked(kicked.session_id, "ada")
        assert not cache.is_revoked(idle.session_id, "bob", touch=False)
        assert not cache.is_revoked("no session id: a space", "bob")
        assert cache._buffer is not None
        assert cache._buffer.waiting == 0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    binary = valkey_binary() or redis_binary() or missing("any Redis server")
    with Server.start(binary, tmp_path, *KEEPS_ALL, port=True) as running:
        yield running


def test_while_redis_is_down_the_cache_answers_until_it_is_stale_and_then_resumes(server: Server) -> None:
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
                cache.clock = lambda: time.monotonic() + now[0]
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


def test_a_cache_that_never_read_anything_treats_all_as_revoked() -> None:
    with Presence.from_url("redis://127.0.0.1:1", Settings(timeout=0.1)) as presence:
        cache = RevocationCache(presence)
        cache.start(wait=0.1)
        assert cache.is_revoked("session-1")
        assert cache.stale_for == float("inf")
        cache.close()


@on("valkey-sync")
def test_with_asyncio_a_task_updates_the_cache(p: P, bed: Bed) -> None:
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
                bob = (await presence.login("bob")).session
                assert not cache.is_revoked(bob.session_id, "bob", login_at=bob.login_at)
                await presence.revoke_before(by="staff", reason="test")
                again = (await presence.login("bob")).session
                while not cache.is_revoked(bob.session_id, "bob", login_at=bob.login_at):
                    assert time.monotonic() < end
                    await asyncio.sleep(0.01)
                assert not cache.is_revoked(again.session_id, "bob", login_at=again.login_at)
            with pytest.raises(RuntimeError):
                cache.start()

    asyncio.run(site())


@on("valkey-sync")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_reads_with_its_own_connection(p: P) -> None:
    old, live = p.login("ada").session.session_id, p.login("eve").session.session_id
    p.kick("ada", by="staff", reason="test")
    with RevocationCache(p) as cache:
        child = os.fork()
        if child == 0:
            ok = cache.is_stale and not len(cache)  # it starts with the first question
            end = time.monotonic() + PATIENT
            while cache.is_revoked(live) and time.monotonic() < end:
                time.sleep(0.01)
            os._exit(0 if ok and cache.is_revoked(old) and not cache.is_revoked(live) else 1)
        assert os.waitpid(child, 0)[1] == 0


@on("valkey-sync")
def test_ends_older_than_any_jwt_are_removed(p: P) -> None:
    for number in range(20):
        p.login(f"u{number}")
        p.kick(f"u{number}", by="staff", reason="test")
    cache = RevocationCache(p, keep=60)
    with cache:
        assert len(cache) == 20
    cache.clock = lambda: time.monotonic() + 61
    cache._ended.agree()
    assert len(cache) == 0


def test_bad_arguments_are_refused_in_one_sentence() -> None:
    with Presence.from_url("redis://127.0.0.1:1", Settings(keep_logout=600)) as presence:
        for options, sentence in (
            ({"keep": 5}, "keep must be a whole number from 60 to 86400."),
            ({"keep": 3600}, "keep must be at most 600: Settings keep tombstones no longer."),
            ({"keep": 600, "max_stale": 0}, "max_stale must be 1 to 3600 seconds."),
            ({"keep": 600, "on_stale": "x"}, 'on_stale must be "closed" or "open".'),
            ({"keep": 600, "heartbeat": 0}, "heartbeat must be 1 to 3600 seconds."),
        ):
            with pytest.raises(InvalidArgument) as caught:
                RevocationCache(presence, **options)
            assert str(caught.value) == sentence
    unlisted = Presence.from_url("redis://127.0.0.1:1", Settings(max_ended=0))
    with unlisted, pytest.raises(InvalidArgument, match=r"^max_ended must be more than 0"):
        RevocationCache(unlisted)
    with pytest.raises(InvalidArgument):
        RevocationCache("redis://")  # type: ignore[arg-type]
