"""What a mirror must survive: a site's server that changes under it, values that change at a kick, and a crash."""

from __future__ import annotations

import json
import logging
import pickle
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from presence_core.mirror.look import acl_line
from presence_core.mirror.stores import BY_NAME
from presence_core.transport.site_store import TRIES, RawSession
from tests.contract.mirror.conftest import ALL, KEY, Site, scan, until
from tests.contract.mirror.test_command import INDEX, _redis_session, _spring_session
from tests.support.servers import Cluster
from tests.support.servers.waiting import wait_for


def _uids(site: Site) -> list[str]:
    return sorted(session.uid for session in site.presence.iter_sessions())


def test_notifications_that_are_turned_off_and_on_are_noticed(site: Site) -> None:
    site.notify(ALL)
    mirror = site.mirror(every=0.1)
    scan(mirror)
    assert mirror.hears == "notifications"
    for flags, hears, who in (("", "scans", "ada"), (ALL, "notifications", "eve")):
        site.notify(flags)
        site.sign_in(who, who)
        mirror._checked_at = 0.0
        until(mirror, lambda hears=hears: mirror.hears == hears)  # type: ignore[misc]
        until(mirror, lambda who=who: site.presence.sessions(who))  # type: ignore[misc]


def test_a_server_that_does_not_say_its_settings_is_scanned(site: Site) -> None:
    site.notify(ALL)
    site.server.command(*["ACL", "SETUSER", "no-config", "on", ">secret", "~*", "&*", "+@all", "-config"])
    try:
        site.access = site.url.replace("redis://", "redis://no-config:secret@")
        mirror = site.mirror(every=0.1)
        scan(mirror)
        site.sign_in("ada", "a1")
        until(mirror, lambda: site.presence.sessions("ada"))
        assert mirror.hears == "scans", "it cannot promise more"
    finally:
        site.server.command("ACL", "DELUSER", "no-config")


def test_a_kicked_session_whose_user_cannot_be_read_any_more_stops_no_other_kick(site: Site) -> None:
    keys = [_spring_session(site, "ada"), _spring_session(site, "eve", "11111111-b496-4b33-9f7d-df96679d32fe")]
    mirror = site.mirror("spring")
    scan(mirror)
    site.redis.hset(keys[0], f"sessionAttr:{INDEX}", b"\xac\xed\x00\x05sr\x00\x01x")
    for who in ("ada", "eve"):
        site.presence.kick(who, by="sam", reason="test")
    until(mirror, lambda: not site.redis.exists(*keys))


def test_a_key_that_the_site_writes_all_the_time_keeps_no_other_kick_and_is_tried_again(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [site.sign_in("ada", "a1"), site.sign_in("eve", "e1")]
    mirror = site.mirror()
    scan(mirror)
    is_wanted, asked = mirror.reconciler._is_wanted, list[bytes]()

    def written_meanwhile(key: bytes, raw: RawSession) -> bool:
        if key == keys[0].encode() and len(asked) < 2 * TRIES:
            asked.append(key)
            site.sign_in("ada", "a1")
        return is_wanted(key, raw)

    monkeypatch.setattr(mirror.reconciler, "_is_wanted", written_meanwhile)
    for who in ("ada", "eve"):
        site.presence.kick(who, by="sam", reason="test")
    until(mirror, lambda: not site.redis.exists(keys[1]))
    until(mirror, lambda: not site.redis.exists(keys[0]))
    assert len(asked) > TRIES, "it was tried in a later turn"


@pytest.mark.parametrize("store", ["express", "redis-sessions"])
def test_a_huge_session_is_neither_read_by_a_scan_nor_at_its_deletion(site: Site, store: str) -> None:
    huge = "x" * 2_000_000

    def sent() -> int:
        return int(site.redis.info("stats")["total_net_output_bytes"])

    def write(sid: str, ip: str) -> str:
        if store == "express":
            return site.sign_in("ada", sid, ip=ip)
        key = f"rs:shop:{sid:x>55}Zabc123"
        site.redis.hset(key, mapping={"id": "ada", "ip": ip, "la": int(time.time()), "ttl": 3600})
        return key

    before = sent()
    mirror = site.mirror(store)
    for sid in "abc":
        write(sid, huge)
    key, medium = write("d", "203.0.113.9"), write("e", "x" * 100_000)
    scan(mirror)
    assert sent() - before < 1_000_000
    assert mirror.reconciler.skipped == {"too long": 3}
    assert len(mirror.reconciler.copies) == 2, "one of 100 kB is read"
    site.presence.kick("ada", by="sam", reason="test")
    before = sent()
    write("d", huge)
    until(mirror, lambda: not site.redis.exists(key, medium))
    assert sent() - before < 1_000_000


@pytest.mark.parametrize(
    ("store", "prefix", "has"),
    [("spring", "shop:sessions:", "~shop:index:*"), ("redis-sessions", "shop:", "&shop:cache")],
)
def test_the_acl_line_has_what_a_kick_needs_under_another_prefix(store: str, prefix: str, has: str) -> None:
    assert has in acl_line(replace(BY_NAME[store], prefix=prefix), 0).split()


def _write_ada(site: Site, store: str) -> str:
    """A session that ends within a second, as its store writes it."""
    now, life = time.time(), 1
    texts = {
        "django": (":1:django.contrib.sessions.cache" + "a" * 32, pickle.dumps({"_auth_user_id": "ada"})),
        "flask": ("session:" + "a" * 43, b"\x81\xa8_user_id\xa3ada"),
        "starsessions": ("starsessions.abc", json.dumps(
            {"user_id": "ada", "__metadata__": {"created": now, "last_access": now, "lifetime": life}})),
        "better-auth": ("a" * 32, json.dumps(
            {"session": {"token": "a" * 32, "userId": "ada"}, "user": {"id": "ada", "name": "Ada"}})),
    }  # fmt: skip
    if store in texts:
        key, value = texts[store]
        site.redis.set(key, value, ex=life)
    elif store == "spring":
        key = _spring_session(site, "ada")
        site.redis.expire(key, life)
    else:  # redis-sessions keeps the hash until its own sweep
        key = _redis_session(site, "ada")
        site.redis.hset(key, mapping={"la": int(now), "ttl": life})
    return key


@pytest.mark.parametrize("flags", [ALL, ""], ids=["notifications", "scans"])
@pytest.mark.parametrize("store", ["django", "flask", "starsessions", "better-auth", "spring", "redis-sessions"])
def test_the_expiry_of_a_session_of_each_store_is_seen(site: Site, store: str, flags: str) -> None:
    site.notify(flags)
    mirror = site.mirror(store, every=0.1)
    _write_ada(site, store)
    until(mirror, lambda: site.presence.sessions("ada"))
    until(mirror, lambda: not site.presence.sessions("ada"))
    assert [(end.reason, end.cause) for end in site.presence.ended("ada")] == [("expired", "idle")]


@pytest.mark.parametrize("lists", [True, False])
def test_sessions_without_a_user_are_listed_if_asked_for(site: Site, lists: bool) -> None:
    site.notify(ALL)
    key, empty = "sess:nobody-1", json.dumps({"cookie": {"originalMaxAge": 1000}, "ip": "203.0.113.9"})
    for number in range(2):
        site.redis.set(f"sess:nobody-{number}", empty, ex=3600)
    mirror = site.mirror(lists_visitors=lists)
    scan(mirror)
    until(mirror, lambda: site.presence.mirrors()[0].without_user == 2)
    found = {mirror.reconciler.key_of[each.session_id]: each for each in site.presence.iter_sessions()}
    assert len(found) == (2 if lists else 0)
    if lists:
        visitor = found[key.encode()]
        assert (visitor.uid[:8], visitor.ip) == ("visitor-", "203.0.113.9")
        site.presence.kick(visitor.uid, by="sam", reason="test")
        until(mirror, lambda: not site.redis.exists(key))
        site.redis.set(key, empty, ex=3600)
        until(mirror, lambda: not site.redis.exists(key))
    site.sign_in("ada", "nobody-1")
    until(mirror, lambda: "ada" in _uids(site))
    site.sign_in("eve", "nobody-0")
    until(mirror, lambda: _uids(site) == ["ada", "eve"])
    assert site.redis.exists(key)


@pytest.mark.parametrize("step", ["before", "after"])
def test_a_mirror_that_is_killed_at_a_deletion_loses_no_kick(site: Site, step: str) -> None:
    key, other = site.sign_in("ada", "a1"), site.sign_in("eve", "e1")
    mirror = site.mirror()
    scan(mirror)
    program = f"""
import os, signal
from presence_core import Presence, Settings
from presence_core.mirror.loop import Mirror
from presence_core.mirror.stores import BY_NAME
from presence_core.transport.site_store import SiteStore
class Dies(SiteStore):
    def delete(self, *given):
        {"super().delete(*given)" if step == "after" else ""}
        os.kill(os.getpid(), signal.SIGKILL)
with Presence.from_url({site.server.url!r}, Settings(namespace="mirrored", timeout=20)) as presence:
    mirror = Mirror(presence, Dies({site.url!r}, 20), BY_NAME["express"], {KEY!r})
    mirror.start()
    presence.kick("ada", by="sam", reason="test")
    mirror.run()
"""
    died = subprocess.run([sys.executable, "-c", program], timeout=60, check=False)
    assert died.returncode == -signal.SIGKILL
    successor = site.mirror()
    scan(successor)
    assert not site.redis.exists(key)
    assert site.redis.exists(other)
    assert [end.reason for end in site.presence.ended("ada")] == ["kicked"]
    assert site.presence.counts().totals["kicked"] == 1


def test_no_id_of_the_site_leaves_the_mirror(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    cursor = site.presence.events_end()
    secret = "s3cr3t-Session-Id-0123456789"
    site.sign_in("ada", secret)
    site.redis.set(f"sess:{secret}-2", b"\xff", ex=1000)
    mirror = site.mirror()
    scan(mirror)
    exported = [repr(site.presence.export_person("ada"))]
    site.presence.kick("ada", by="sam", reason="test")
    scan(mirror)
    exported += [repr(site.presence.export_person("ada")), repr(site.presence.events(after=cursor, limit=100))]
    exported += [repr(site.presence.ended("ada")), repr(site.presence.mirrors()), caplog.text]
    assert not [text for text in exported if secret in text]


def test_kicks_and_notifications_go_on_after_a_failover_of_the_site_s_cluster(tmp_path: Path, site: Site) -> None:
    with Cluster.start(site.server.binary, tmp_path, masters=3, replicas=1) as cluster, cluster.client() as redis:
        for node in cluster.nodes:
            node.command("CONFIG", "SET", "notify-keyspace-events", ALL)
        there = replace(site, redis=redis, access=cluster.url)
        keys = [there.sign_in(f"user-{place}", f"s{place}") for place in range(12)]
        line = acl_line(BY_NAME["express"], 0, is_cluster=True).replace("PASSWORD", "secret")
        if "redis_version:7.0" in str(cluster.nodes[0].command("INFO", "server")):
            line = line.replace(" +client|setinfo", "")  # Redis 7.2
        for node in cluster.nodes:
            node.command(*line.split())
        there.access = cluster.url.replace("://", "://presence-mirror:secret@")
        mirror = there.mirror()
        scan(mirror)
        replica = next(node for node in cluster.nodes if "role:slave" in str(node.command("INFO", "replication")))
        replica.command("CLUSTER", "FAILOVER")
        wait_for("it is a master", lambda: "role:master" in str(replica.command("INFO", "replication")))
        for place in range(12):
            site.presence.kick(f"user-{place}", by="sam", reason="test")
        wait_for("all are deleted", lambda: mirror.turn() and not any(redis.exists(key) for key in keys), 30)
        mirror._checked_at = 0.0
        mirror.turn()
        for place in range(12):
            there.sign_in(f"new-{place}", f"n{place}")
        wait_for("all are heard", lambda: mirror.turn() and _uids(site) == sorted(f"new-{n}" for n in range(12)))
        assert mirror.hears == "notifications"
        there.close()
