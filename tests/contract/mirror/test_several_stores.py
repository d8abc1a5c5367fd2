"""Two stores in one Redis of the site, two namespaces in one of ours, and what staff do beyond a single kick."""

from __future__ import annotations

from dataclasses import replace

from presence_core import Presence, SessionFilter, Settings
from tests.contract.mirror.conftest import ALL, Site, scan, until
from tests.support.fair_clock import PATIENT

FLASK = "session:" + "a" * 43


def _flask_session(site: Site, uid: str) -> str:
    site.redis.set(FLASK, b"\x81\xa8_user_id\xa3" + uid.encode(), ex=3600)
    return FLASK


def test_two_stores_of_a_site_are_kept_apart_in_one_namespace(site: Site) -> None:
    site.notify(ALL)
    first, second = site.sign_in("ada", "a1"), _flask_session(site, "ada")
    mirrors = [site.mirror("express"), site.mirror("flask")]
    for mirror in [*mirrors, *mirrors]:
        scan(mirror)
    assert [len(mirror.reconciler.copies) for mirror in mirrors] == [1, 1]
    assert sorted(status.name for status in site.presence.mirrors()) == ["express sess:", "flask session:"]
    [sid] = mirrors[1].reconciler.key_of
    site.presence.kick("ada", sid, by="sam", reason="test")
    until(mirrors[1], lambda: not site.redis.exists(second))
    scan(mirrors[0])
    assert site.redis.exists(first)
    [left] = site.presence.sessions("ada")
    assert left.session_id in mirrors[0].reconciler.key_of


def test_two_namespaces_of_one_redis_mirror_two_stores_of_one_redis(site: Site) -> None:
    site.notify(ALL)
    first, second = site.sign_in("ada", "a1"), _flask_session(site, "ada")
    with Presence.from_url(site.server.url, Settings(namespace="second", timeout=PATIENT)) as presence:
        other = replace(site, presence=presence)
        mine, theirs = site.mirror("express"), other.mirror("flask")
        for mirror in (mine, theirs):
            scan(mirror)
        assert [len(each.sessions("ada")) for each in (site.presence, presence)] == [1, 1]
        presence.kick("ada", by="sam", reason="test")
        until(theirs, lambda: not site.redis.exists(second))
        scan(mine)
        assert site.redis.exists(first)
        assert [len(each.sessions("ada")) for each in (site.presence, presence)] == [1, 0]
        site.presence.revoke_before(by="sam", reason="test")
        until(mine, lambda: not site.redis.exists(first))
        assert presence.counts().totals["kicked"] == site.presence.counts().totals["kicked"] == 1


def test_an_erased_person_is_listed_again_as_a_new_record_while_their_session_goes_on_at_the_site(site: Site) -> None:
    site.notify(ALL)
    key = site.sign_in("ada", "a1")
    mirror = site.mirror()
    scan(mirror)
    site.presence.block("ada", by="sam", reason="test")
    site.presence.erase("ada", by="sam", reason="they asked for it")
    assert site.presence.sessions("ada") == []
    scan(mirror)
    until(mirror, lambda: site.presence.sessions("ada"))
    assert site.redis.exists(key), "erase is not a kick"
    assert site.presence.ended("ada").items == []
    assert not site.presence.blocked("ada")


def test_a_person_who_is_kicked_and_then_erased_does_not_come_back(site: Site) -> None:
    site.notify(ALL)
    key = site.sign_in("ada", "a1")
    mirror = site.mirror()
    scan(mirror)
    site.presence.kick("ada", by="sam", reason="they asked for it")
    until(mirror, lambda: not site.redis.exists(key))
    site.presence.erase("ada", by="sam", reason="they asked for it")
    scan(mirror)
    successor = site.mirror()
    scan(successor)
    scan(successor)
    assert site.presence.sessions("ada") == []
    assert not list(site.server.client(db=0).scan_iter("*ada*"))


def test_a_bulk_kick_that_a_second_person_approved_ends_the_sessions_at_the_site(site: Site) -> None:
    site.notify(ALL)
    for number in range(3):
        site.sign_in(f"user-{number}", f"s{number}", ip="203.0.113.9")
    stays = site.sign_in("eve", "e1", ip="198.51.100.1")
    mirror = site.mirror()
    scan(mirror)
    request = site.presence.ask_approval(filter=SessionFilter(ip="203.0.113.0/24"), sessions=3, by="sam", reason="test")
    scan(mirror)
    assert len(site.redis.keys("sess:*")) == 4, "nothing ends before the answer"
    site.presence.answer_request(request.id, "approve", by="grace")
    assert request.filter is not None
    job = site.presence.start_kick(request.filter, by="grace", reason="test", expected=3)
    assert site.presence.run_job(job.id).count == 3
    until(mirror, lambda: site.redis.keys("sess:*") == [stays.encode()])
    assert {end.by for end in site.presence.ended().items} == {"grace"}
