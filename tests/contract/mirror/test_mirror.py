"""What ``presence mirror`` shows of a site's own sessions, and how a kick ends them there."""

from __future__ import annotations

import json
import random
import threading
import time
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from presence_core import InvalidArgument, Presence, SessionFilter, Settings
from presence_core.mirror.loop import Mirror
from presence_core.mirror.stores import BY_NAME
from tests.contract.mirror.conftest import ALL, KEY, Site, scan, until
from tests.support.servers import Cluster, Server
from tests.support.servers.waiting import wait_for
from tests.support.soak import size

hears = pytest.mark.parametrize("flags", [ALL, ""], ids=["notifications", "scans"])
"""How the mirror learns of changes."""


def _has_copies(mirror: Mirror, number: int) -> bool:
    return len(mirror.reconciler.copies) == number


def _sids(site: Site, uid: str) -> list[str]:
    return [session.session_id for session in site.presence.sessions(uid)]


@hears
def test_sessions_are_listed_with_what_the_site_says_of_their_users(site: Site, flags: str) -> None:
    site.notify(flags)
    site.sign_in("ada", "a1", left=3000, user={"name": "Ada Lovelace", "email": "ada@example.com"}, ip="203.0.113.9")
    site.redis.set("sess:anonymous", json.dumps({"cookie": {"originalMaxAge": None}}), ex=86400)
    site.redis.set("other", "x")
    mirror = site.mirror()
    scan(mirror)
    [session] = site.presence.sessions("ada")
    assert (session.name, session.aliases, session.ip) == ("Ada Lovelace", ("ada@example.com",), "203.0.113.9")
    assert timedelta(seconds=595) < session.login_at - session.last_seen + timedelta(seconds=600), "seen 600 s ago"
    assert abs((session.expires_at - session.last_seen).total_seconds() - 3600) < 2, "when the site's session expires"
    assert session.session_id.startswith("mirror-")
    assert "a1" not in session.session_id
    until(mirror, lambda: site.presence.mirrors()[0].sessions == 1)
    [status] = site.presence.mirrors()
    assert (status.alive, status.hears, status.without_user, status.skipped) == (
        True, "notifications" if flags else "scans", 1, 0,
    )  # fmt: skip


@hears
def test_logins_activity_logouts_changes_of_user_and_expiry_are_followed(site: Site, flags: str) -> None:
    site.notify(flags)
    mirror = site.mirror(every=0.1)
    scan(mirror)
    key = site.sign_in("ada", "a1", left=3000)
    until(mirror, lambda: _sids(site, "ada"))
    [first] = site.presence.sessions("ada")
    site.redis.expire(key, 3600)  # as express-session's touch does
    until(mirror, lambda: site.presence.sessions("ada")[0].last_seen > first.last_seen + timedelta(seconds=500))
    site.sign_in("ada", "a1", user={"name": "Ada King"})
    until(mirror, lambda: site.presence.sessions("ada")[0].name == "Ada King")
    assert _sids(site, "ada") == [first.session_id]

    site.sign_in("eve", "a1")
    until(mirror, lambda: _sids(site, "eve") and not _sids(site, "ada"))
    [end] = site.presence.ended("ada")
    assert (end.reason, end.cause) == ("logout", "site")

    site.redis.delete(key)
    until(mirror, lambda: not _sids(site, "eve"))
    [end] = site.presence.ended("eve")
    assert (end.reason, end.cause) == ("logout", "site")

    site.sign_in("bob", "b1", left=1, life=1)
    until(mirror, lambda: _sids(site, "bob"))
    until(mirror, lambda: not _sids(site, "bob"))
    [end] = site.presence.ended("bob")
    assert (end.reason, end.cause) == ("expired", "idle")


@hears
def test_a_kick_deletes_the_site_s_key_and_again_if_a_request_writes_it_back(site: Site, flags: str) -> None:
    site.notify(flags)
    mirror = site.mirror(every=0.1)
    key = site.sign_in("ada", "a1")
    other = site.sign_in("ada", "a2")
    scan(mirror)
    written = site.redis.get(key)
    [chosen] = [sid for sid in _sids(site, "ada") if mirror.reconciler.key_of[sid] == key.encode()]
    site.presence.kick("ada", chosen, by="sam", reason="test")
    until(mirror, lambda: not site.redis.exists(key))
    for _ in range(3):
        site.redis.set(key, written, ex=3600)
        until(mirror, lambda: not site.redis.exists(key))
    assert site.redis.exists(other)
    assert len(_sids(site, "ada")) == 1
    assert [end.reason for end in site.presence.ended("ada")] == ["kicked"], "it is counted once"


@pytest.mark.parametrize("way", ["kick all", "kick_where", "revoke_before", "logout_others"])
def test_every_end_of_ours_ends_the_site_s_session(site: Site, way: str) -> None:
    site.notify(ALL)
    for number in range(3):
        site.sign_in("ada", f"a{number}", left=3000)
    mirror = site.mirror()
    scan(mirror)
    match way:
        case "kick all":
            site.presence.kick("ada", by="sam", reason="test")
        case "kick_where":
            site.presence.kick_where(SessionFilter(uid="ada"), by="sam", reason="test", expected=10)
        case "revoke_before":
            site.presence.revoke_before(by="sam", reason="test")
        case "logout_others":
            stays, *_ = _sids(site, "ada")
            site.presence.logout_others("ada", stays)
    left = 1 if way == "logout_others" else 0
    until(mirror, lambda: len(site.redis.keys("sess:*")) == left)
    assert len(_sids(site, "ada")) == left
    site.sign_in("ada", "new")
    until(mirror, lambda: len(_sids(site, "ada")) == left + 1)
    assert site.redis.exists("sess:new"), "a new sign-in stays"


def test_an_empty_session_and_one_of_another_user_under_a_kicked_id_stay(site: Site) -> None:
    site.notify(ALL)
    mirror = site.mirror()
    key = site.sign_in("ada", "a1")
    scan(mirror)
    site.presence.kick("ada", by="sam", reason="test")
    until(mirror, lambda: not site.redis.exists(key))
    empty = json.dumps({"cookie": {"originalMaxAge": 1000}})
    site.redis.set(key, empty, ex=3600)
    scan(mirror)
    assert site.redis.get(key) == empty.encode()
    site.sign_in("eve", "a1")
    until(mirror, lambda: _sids(site, "eve"))
    assert site.redis.exists(key)


def test_a_sign_in_under_a_kicked_id_is_known_by_its_login_time_or_by_choice(site: Site) -> None:
    site.notify(ALL)
    mirror = site.mirror()
    key = site.sign_in("ada", "a1", loginAt=1_700_000_000)
    scan(mirror)
    site.presence.kick("ada", by="sam", reason="test")
    until(mirror, lambda: not site.redis.exists(key))
    site.sign_in("ada", "a1", loginAt=1_700_000_500)
    until(mirror, lambda: _sids(site, "ada"))
    assert site.redis.exists(key), "another login time"

    chooses = site.mirror(replace(BY_NAME["express"], same_login="new", prefix="mine:"), name="mine")
    site.redis.copy(site.sign_in("bob", "b1"), "mine:b1")
    scan(chooses)
    site.presence.kick("bob", by="sam", reason="test")
    until(chooses, lambda: not site.redis.exists("mine:b1"))
    site.redis.copy("sess:b1", "mine:b1")
    until(chooses, lambda: _sids(site, "bob"))
    assert site.redis.exists("mine:b1"), "the user chose that it is another sign-in"


def test_a_kick_while_the_mirror_is_away_is_done_when_it_comes_back(site: Site) -> None:
    key, other = site.sign_in("ada", "a1"), site.sign_in("eve", "e1")
    mirror = site.mirror()
    scan(mirror)
    [sid] = _sids(site, "eve")
    site.presence.kick("ada", by="sam", reason="test")
    gone = site.sign_in("bob", "b1")
    scan(mirror)
    assert not site.redis.exists(key)
    site.redis.set(key, site.redis.get(other).replace(b"eve", b"ada"), ex=3600)  # written back while it is away
    site.redis.delete(gone)
    successor = site.mirror()
    scan(successor)
    scan(successor)
    assert not site.redis.exists(key)
    assert _sids(site, "eve") == [sid], "it has the same id"
    assert _sids(site, "bob") == []
    assert [(end.reason, end.cause) for end in site.presence.ended("bob")] == [("logout", "site")]


def test_a_session_of_a_blocked_user_is_deleted_on_sight(site: Site) -> None:
    site.notify(ALL)
    mirror = site.mirror()
    scan(mirror)
    site.presence.block("ada", by="sam", reason="test")
    key = site.sign_in("ada", "a1")
    until(mirror, lambda: not site.redis.exists(key))
    assert _sids(site, "ada") == []
    site.presence.unblock("ada", by="sam", reason="test")
    site.sign_in("ada", "a2")
    until(mirror, lambda: _sids(site, "ada"))


def test_limits_and_timeouts_of_ours_end_no_mirrored_session(site: Site) -> None:
    strict = Settings(namespace="mirrored", max_sessions=1, max_sessions_per_device=1, idle_timeout=1, timeout=20)
    for number in range(4):
        site.sign_in("ada", f"a{number}", life=86_400, left=40_000)
    mirror = site.mirror()
    scan(mirror)
    with Presence.from_url(site.server.url, strict) as presence:
        login = presence.login("ada", device="phone")
        assert login.replaced == []
        assert [session.device for session in presence.login("ada", device="phone").replaced] == ["phone"]
        time.sleep(1.1)
        presence.sweep()
    assert len(_sids(site, "ada")) == 4
    with pytest.raises(InvalidArgument, match="presence mirror"):
        site.presence.login("ada", session_id="mirror-0123456789")
    with pytest.raises(InvalidArgument, match="kick it"):
        site.presence.require_sign_in("ada", _sids(site, "ada")[0], by="sam", reason="test")
    assert site.presence.require_sign_in("ada", by="sam", reason="test").skipped == 4


def test_a_change_of_timeouts_leaves_mirrored_sessions_as_they_are(site: Site) -> None:
    site.sign_in("ada", "a1")
    own = site.presence.login("ada").session
    scan(site.mirror())
    [mirrored] = [each for each in site.presence.sessions("ada") if each.ref != own.ref]
    with pytest.raises(InvalidArgument, match="the site decides"):
        site.presence.change_timeouts("ada", mirrored.session_id, idle_timeout=60, by="sam", reason="test")
    [changed] = site.presence.change_timeouts("ada", idle_timeout=60, by="sam", reason="test")
    assert changed.ref == own.ref
    wanted = SessionFilter(uid="ada")
    preview = site.presence.preview_timeouts(wanted, idle_timeout=50)
    assert (preview.total, preview.shortened) == (2, 1)
    site.presence.change_timeouts_where(preview.filter, idle_timeout=50, by="sam", reason="test", expected=2)
    assert {each.ref: each.idle_timeout for each in site.presence.sessions("ada")} == {
        own.ref: 50, mirrored.ref: mirrored.idle_timeout,
    }  # fmt: skip


def test_a_session_that_outlived_its_deadline_here_is_listed_again(site: Site) -> None:
    """The mirror was away for longer than a copy outlives the site's session."""
    site.notify(ALL)
    mirror = site.mirror()
    site.sign_in("ada", "a1")
    scan(mirror)
    [sid] = _sids(site, "ada")
    context = site.presence.internal.context
    context.now = str(round(time.time() * 1000) + 3 * 86_400_000)
    try:
        site.presence.sweep()
    finally:
        context.now = ""
    assert _sids(site, "ada") == []
    until(mirror, lambda: _sids(site, "ada"))
    assert _sids(site, "ada") != [sid], "a session never comes back"
    assert site.redis.exists("sess:a1")


def test_no_id_of_the_site_is_in_our_redis(site: Site) -> None:
    secret = "s3cr3t-Session-Id-0123456789"
    site.sign_in("ada", secret)
    mirror = site.mirror()
    scan(mirror)
    site.presence.kick("ada", by="sam", reason="test")
    scan(mirror)
    ours = site.server.client(db=0)
    dumped = b"".join(key + (ours.dump(key) or b"") for key in ours.scan_iter(count=1000))
    assert secret.encode() not in dumped
    assert KEY not in dumped


def test_another_digest_key_is_refused_before_every_session_begins_again(site: Site) -> None:
    site.mirror()
    with pytest.raises(InvalidArgument, match="PRESENCE_MIRROR_KEY must be the key"):
        site.mirror(key=bytes(32))
    site.mirror(key=bytes(32), name="another")


HOSTILE: dict[str, Any] = {
    "no json": b"\xff\xfe{",
    "a number": b"12",
    "nested": b'{"cookie":' + b"[" * 200_000,
    "too long": b'{"cookie":{},"userId":"eve","x":"' + b"x" * 20_000_000 + b'"}',
    "a long user": json.dumps({"cookie": {}, "userId": "e" * 5000}).encode(),
    "a user with control characters": json.dumps({"cookie": {}, "userId": "e\x00e"}).encode(),
    "half a character": b'{"cookie":{},"userId":"\\ud800"}',
    "infinite": b'{"cookie":{"originalMaxAge":1e999},"userId":"inf","loginAt":1e999}',
    "odd fields": json.dumps(
        {"cookie": [], "userId": "odd", "user": 5, "ip": "x" * 9000, "name": {}, "loginAt": -1, "email": "\n" * 99}
    ).encode(),
}


def test_hostile_values_are_skipped_and_counted(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    for name, value in HOSTILE.items():
        site.redis.set(f"sess:key {name}", value, ex=1000)
    site.redis.hset("sess:hash", "a", "b")
    site.redis.lpush("sess:list", "b")
    site.sign_in("ada", "a1")
    mirror = site.mirror()
    scan(mirror)
    assert sorted(session.uid for session in site.presence.iter_sessions()) == ["ada", "inf", "odd"]
    assert sum(mirror.reconciler.skipped.values()) == 9
    scan(mirror)
    lines = [record.message for record in caplog.records if "skipped" in record.message]
    assert len(lines) == len(set(lines)) == len(mirror.reconciler.skipped), "one line for each kind"
    assert not any("key" in line.removeprefix("some keys") for line in lines), "no key of the site"


def test_an_outage_of_the_site_s_redis_keeps_the_kicks(tmp_path: Path, site: Site) -> None:
    with Server.start(site.server.binary, tmp_path, port=True) as own, Redis.from_url(f"{own.url[:-1]}1") as redis:
        there = replace(site, server=own, redis=redis)
        key = there.sign_in("ada", "a1")
        mirror = there.mirror(timeout=0.3)
        scan(mirror)
        own.pause()
        site.presence.kick("ada", by="sam", reason="test")
        mirror.turn()
        assert "site's store" in mirror.problem
        assert mirror.reconciler.pending
        own.resume()
        until(mirror, lambda: not redis.exists(key))
        there.close()


def test_kicks_under_traffic_that_writes_back_leave_no_session(site: Site) -> None:
    site.notify(ALL)
    number = size(300, 10_000)
    pipe = site.redis.pipeline(transaction=False)
    for place in range(number):
        value = {"cookie": {"originalMaxAge": 3_600_000}, "userId": f"user-{place}"}
        pipe.set(f"sess:{place}", json.dumps(value), ex=3600)
    pipe.execute()
    mirror = site.mirror()
    scan(mirror)
    thread, stop = threading.Thread(target=mirror.run), threading.Event()
    thread.start()
    written = [0] * 4

    def requests(turn: int) -> None:
        """Requests that had read their session, and write it at their end."""
        chance = random.Random(turn)
        with Redis.from_url(site.url) as own:
            while not stop.is_set():
                key = f"sess:{chance.randrange(number)}"
                value = own.get(key)
                time.sleep(0.003)
                if value is not None:
                    own.set(key, value, ex=3600)
                    written[turn] += 1

    visitors = [threading.Thread(target=requests, args=(turn,)) for turn in range(4)]
    try:
        for visitor in visitors:
            visitor.start()
        for place in range(number):
            site.presence.kick(f"user-{place}", by="sam", reason="test")
        stop.set()
        for visitor in visitors:
            visitor.join()
        wait_for("no session is left", lambda: not site.redis.exists(*(f"sess:{place}" for place in range(number))))
        time.sleep(0.3)
        assert site.redis.keys("sess:*") == []
        assert sum(written) > 0
        assert site.presence.counts().sessions == 0
        assert site.presence.counts().totals["kicked"] == number
    finally:
        stop.set()
        mirror.stop()
        thread.join()


def test_two_mirrors_of_a_site_count_each_session_and_each_end_once(site: Site) -> None:
    site.notify(ALL)
    mirrors = [site.mirror(), site.mirror()]
    for mirror in mirrors:
        scan(mirror)
    for place in range(20):
        site.sign_in(f"user-{place}", f"s{place}")
    for mirror in mirrors:
        until(mirror, partial(_has_copies, mirror, 20))
    assert site.presence.counts().sessions == site.presence.counts().totals["login"] == 20
    for place in range(10):
        site.redis.delete(f"sess:s{place}")
        site.presence.kick(f"user-{place + 10}", by="sam", reason="test")
    for mirror in mirrors:
        until(mirror, partial(_has_copies, mirror, 0))
    totals = site.presence.counts().totals
    assert (totals["logout"], totals["kicked"], totals["expired"]) == (10, 10, 0)
    assert site.redis.keys("sess:*") == []


@hears
def test_sessions_on_a_cluster_are_followed_and_kicked(tmp_path: Path, site: Site, flags: str) -> None:
    with Cluster.start(site.server.binary, tmp_path, masters=3, replicas=0) as cluster, cluster.client() as redis:
        for node in cluster.nodes:
            node.command("CONFIG", "SET", "notify-keyspace-events", flags)
        there = replace(site, redis=redis, access=cluster.url)
        keys = [there.sign_in(f"user-{place}", f"s{place}") for place in range(30)]
        mirror = there.mirror(every=0.1)
        scan(mirror)
        assert mirror.hears == ("notifications" if flags else "scans")
        assert site.presence.counts().sessions == 30
        for place in range(20):
            site.presence.kick(f"user-{place}", by="sam", reason="test")
        redis.delete(keys[29])
        there.sign_in("ada", "new")
        until(mirror, lambda: sum(redis.exists(key) for key in keys) == 9)
        until(mirror, lambda: _sids(site, "ada") and not _sids(site, "user-29"))
        assert site.presence.counts().sessions == 10
        there.close()


def test_a_key_that_is_another_session_by_now_is_not_deleted(site: Site) -> None:
    """It changes between the look and the deletion."""
    key = site.sign_in("ada", "a1").encode()
    mirror = site.mirror()
    scan(mirror)
    site.presence.kick("ada", by="sam", reason="test")
    is_wanted, asked = mirror.reconciler._is_wanted, []

    def look(name: bytes, raw: Any) -> bool:
        asked.append(is_wanted(name, raw))
        if len(asked) == 1:
            site.sign_in("eve", "a1")
        return asked[-1]

    mirror.reconciler._is_wanted = look  # type: ignore[assignment, method-assign]
    until(mirror, lambda: asked)
    assert asked == [True, False]
    assert b"eve" in site.redis.get(key)
    scan(mirror)
    assert _sids(site, "eve")


def test_a_session_that_the_site_ended_and_has_again_is_listed_again(site: Site) -> None:
    site.notify(ALL)
    mirror = site.mirror()
    for _ in range(3):
        key = site.sign_in("ada", "a1")
        until(mirror, lambda: _sids(site, "ada"))
        site.redis.delete(key)
        until(mirror, lambda: not _sids(site, "ada"))
    assert [end.cause for end in site.presence.ended("ada")] == ["site"] * 3
    assert len({end.session_id for end in site.presence.ended("ada")}) == 3
