"""The site's Redis restarts, fails over, comes back empty or is away: no kick is lost, and nothing ends wrongly."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from presence_core import Unavailable
from presence_core.mirror import loop
from presence_core.mirror.loop import Mirror
from tests.contract.mirror.conftest import ALL, Site, scan, until
from tests.support.servers import Sentinels, Server
from tests.support.servers.waiting import wait_for


def _refs(site: Site) -> list[str]:
    return sorted(session.ref for session in site.presence.iter_sessions())


@contextmanager
def _own_server(tmp_path: Path, site: Site, *arguments: str) -> Iterator[Site]:
    """A server for the site alone, which a test may end."""
    words = ["--notify-keyspace-events", ALL, *arguments]
    with (
        Server.start(site.server.binary, tmp_path, *words, port=True) as own,
        Redis.from_url(f"{own.url[:-1]}1") as redis,
    ):
        there = replace(site, server=own, redis=redis)
        yield there
        there.close()


def _works_again(mirror: Mirror) -> None:
    wait_for("the mirror works again", lambda: mirror.turn() and not mirror.problem)


def test_a_restart_of_the_site_s_redis_ends_nothing_and_kicks_go_on(tmp_path: Path, site: Site) -> None:
    with _own_server(tmp_path, site, "--appendonly", "yes") as there:
        keys = [there.sign_in(f"user-{number}", f"s{number}") for number in range(3)]
        mirror = there.mirror(timeout=1)
        scan(mirror)
        before = _refs(site)
        there.server.stop()
        site.presence.kick("user-0", by="sam", reason="test")
        mirror.turn()
        assert mirror.problem
        there.server.restart()
        _works_again(mirror)
        until(mirror, lambda: not there.redis.exists(keys[0]))
        scan(mirror)
        assert _refs(site) == before[1:]
        there.sign_in("ada", "new")
        until(mirror, lambda: site.presence.sessions("ada"))
        assert site.presence.counts().totals["logout"] == site.presence.counts().totals["expired"] == 0


def test_sessions_end_a_minute_after_the_site_s_redis_came_back_empty_and_not_if_they_return(
    tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with _own_server(tmp_path, site) as there:
        for number in range(loop.MASS):
            there.sign_in(f"user-{number}", f"s{number}")
        mirror = there.mirror(timeout=1, every=0.05)
        scan(mirror)
        before = _refs(site)
        saved = {key: there.redis.get(key) for key in there.redis.keys("*")}
        there.server.restart()
        _works_again(mirror)
        number = mirror.reconciler.pass_number
        until(mirror, lambda: mirror.reconciler.pass_number > number + 1)
        assert _refs(site) == before
        assert "are gone at once" in caplog.text
        pipe = there.redis.pipeline(transaction=False)
        for key, value in saved.items():
            pipe.set(key, value, ex=3600)
        pipe.execute()
        scan(mirror)
        assert _refs(site) == before

        there.redis.flushall()
        number = mirror.reconciler.pass_number
        until(mirror, lambda: mirror.reconciler.pass_number > number + 1)
        assert _refs(site) == before
        monkeypatch.setattr(loop, "LOSS_SECONDS", 0.0)
        until(mirror, lambda: not _refs(site))
        [end] = site.presence.ended("user-0")
        assert (end.reason, end.cause) == ("logout", "site")


def test_sessions_that_cannot_be_read_any_more_stay_and_are_not_taken_for_gone(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """The site has changed their format."""
    for number in range(loop.MASS):
        site.sign_in(f"user-{number}", f"s{number}")
    mirror = site.mirror()
    scan(mirror)
    before = _refs(site)
    pipe = site.redis.pipeline(transaction=False)
    for number in range(loop.MASS):
        pipe.set(f"sess:s{number}", b"\xff", ex=3600)
    pipe.execute()
    scan(mirror)
    assert _refs(site) == before
    assert mirror.reconciler.skipped == {"no JSON": loop.MASS}
    assert "are gone at once" not in caplog.text


def test_a_mirror_of_a_wrong_database_does_not_end_the_sessions_of_an_earlier_run_at_once(site: Site) -> None:
    for number in range(loop.MASS):
        site.sign_in(f"user-{number}", f"s{number}")
    scan(site.mirror())
    before = _refs(site)
    site.access = site.url.removesuffix("1") + "5"
    wrong = site.mirror(every=0.05)
    until(wrong, lambda: wrong.reconciler.pass_number > 3)
    assert _refs(site) == before


@pytest.mark.soak  # 4 s of waiting; the restart above is the part for every run
def test_a_failover_by_sentinels_ends_nothing_and_kicks_go_on(tmp_path: Path, site: Site) -> None:
    arguments = ["--notify-keyspace-events", ALL]
    with Sentinels.start(site.server.binary, tmp_path, extra_args=arguments) as group:
        redis: Any = group.client().master_for(group.master_name)  # type: ignore[no-untyped-call]
        there = replace(site, redis=redis, access=group.url)
        keys = [there.sign_in(f"user-{number}", f"s{number}") for number in range(3)]
        redis.wait(2, 5_000)
        mirror = there.mirror(timeout=1)
        scan(mirror)
        before, old = _refs(site), group.master()
        old.kill()
        site.presence.kick("user-0", by="sam", reason="test")
        wait_for("another master", lambda: group.master() is not old, 30)
        wait_for("it is deleted", lambda: mirror.turn() and not mirror.problem and not redis.exists(keys[0]), 30)
        scan(mirror)
        assert _refs(site) == before[1:]
        there.sign_in("ada", "new")
        until(mirror, lambda: site.presence.sessions("ada"))
        assert mirror.hears == "notifications"
        assert site.presence.counts().totals["logout"] == site.presence.counts().totals["expired"] == 0
        there.close()
        redis.close()


def test_what_changed_while_nothing_was_heard_is_found_by_another_scan(site: Site) -> None:
    """The connection for notifications breaks during a scan, which has already read the key that changes."""
    site.notify(ALL)
    for number in range(3 * loop.SLICE):
        site.sign_in(f"user-{number}", f"s{number}")
    mirror = site.mirror(rate=10 * loop.SLICE)
    until(mirror, lambda: mirror.reconciler.copies)
    assert mirror.looked_at is None, "the scan goes on"
    key = next(iter(mirror.reconciler.copies))
    uid = mirror.reconciler.copies[key].uid
    mirror._site.stop_listening()
    site.redis.delete(key)
    until(mirror, lambda: not site.presence.sessions(uid), 5)


def test_a_kick_whose_event_was_lost_is_done_by_the_next_scan(site: Site) -> None:
    """Events are kept for a time: a mirror that was away for longer, or a failover of ours, has a gap."""
    site.notify(ALL)
    key = site.sign_in("ada", "a1")
    mirror = site.mirror()
    scan(mirror)
    site.presence.kick("ada", by="sam", reason="test")
    mirror._cursor = site.presence.events_end()
    time.sleep(0.01)
    scan(mirror)
    until(mirror, lambda: not site.redis.exists(key), 5)
    assert site.presence.counts().totals["kicked"] == 1


@pytest.mark.parametrize("step", ["notification_flags", "listen", "changes", "scan", "read", "delete"])
def test_a_site_s_redis_that_is_away_at_a_step_loses_no_kick(tmp_path: Path, site: Site, step: str) -> None:
    with _own_server(tmp_path, site) as there:
        key, other = there.sign_in("ada", "a1"), there.sign_in("eve", "e1")
        mirror = there.mirror(timeout=0.2)
        scan(mirror)
        before = _refs(site)
        act = getattr(mirror._site, step)

        def away(*given: Any) -> Any:
            setattr(mirror._site, step, act)
            there.server.pause()
            return act(*given)

        setattr(mirror._site, step, away)
        mirror._checked_at = mirror._next_scan = 0.0
        if step == "listen":
            mirror._site.stop_listening()
        site.presence.kick("ada", by="sam", reason="test")
        mirror.turn()
        assert not there.server.running, "it was away at this step"
        there.server.resume()
        _works_again(mirror)
        until(mirror, lambda: not there.redis.exists(key))
        scan(mirror)
        assert there.redis.exists(other)
        assert _refs(site) == [ref for ref in before if ref.startswith("eve:")]
        assert site.presence.counts().totals["kicked"] == 1


def test_a_site_s_redis_that_is_away_at_the_start_loses_no_kick(tmp_path: Path, site: Site) -> None:
    with _own_server(tmp_path, site) as there:
        key = there.sign_in("ada", "a1")
        scan(there.mirror())
        site.presence.kick("ada", by="sam", reason="test")
        there.server.pause()
        with pytest.raises(Unavailable, match="The site's store"):
            there.mirror(timeout=0.2)
        there.server.resume()
        mirror = there.mirror()
        until(mirror, lambda: not there.redis.exists(key))
