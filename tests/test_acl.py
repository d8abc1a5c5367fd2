"""The rights that docs/architecture.md lists are enough, and are what the test gives."""

from __future__ import annotations

import re
import time
from pathlib import Path

from presence_core import LastSeenTracker, MinuteSetTracker, Presence, SessionFilter, Worker
from tests.conftest import Bed, on

DOCUMENT = Path(__file__).parent.parent / "docs" / "architecture.md"


def _rights() -> list[str]:
    section = DOCUMENT.read_text("utf-8").split("## The ACL of a site")[1]
    return re.findall(r"\+[@a-z_]+(?:\|[a-z]+)?", section)


@on("valkey-sync", "redis7-sync")
def test_a_user_with_the_documented_rights_may_do_everything(bed: Bed) -> None:
    raw = bed.raw
    raw.execute_command("ACL", "SETUSER", "site", "reset", "on", ">s3cret", "~{acl:*}*", "~{acl}*", *_rights())
    path = raw.connection_pool.connection_kwargs["path"]
    from presence_core import Settings

    with Presence.from_url(f"unix://site:s3cret@{path}", Settings(namespace="acl", max_sessions_per_device=1)) as p:
        login = p.login("ada", device="phone", user_agent="curl/8", name="Ada")
        assert p.validate(login.token)
        assert p.validate_session("ada", login.session.session_id)
        login = p.rotate(login.token)
        assert p.heartbeat("ada", login.session.session_id)
        assert p.heartbeats([login.session.ref]) == []
        assert p.get("ada", login.session.session_id)
        assert len(p.sessions("ada")) == len(list(p.iter_sessions())) == p.counts().sessions == 1
        p.login("ada", device="phone")
        assert p.kick("ada", by="staff", reason="test", message="bye")
        one = p.login("ada").session
        assert p.kick("ada", one.session_id, by="staff", reason="test")
        two = p.login("ada").session
        assert p.logout("ada", two.session_id)
        p.block("ada", by="staff", reason="test", duration=60)
        assert p.blocked("ada")
        assert p.blocks().total == 1
        assert p.unblock("ada", by="staff", reason="test")
        p.denied(by="viewer", what="kick")
        assert len(p.audit()) == p.audit().total == 5
        assert len(p.ended()) == 4
        assert p.ended("ada")
        p.login("bob", device="phone")
        time.sleep(0.002)
        asked = SessionFilter(device="phone")
        job = p.start_kick(asked, by="staff", reason="test", expected=p.preview_kick(asked).total)
        p.pause_job(job.id, by="staff")
        p.resume_job(job.id, by="staff")
        assert p.run_job(job.id).count == 1
        assert p.kick_where(asked, by="staff", reason="test", expected=0).count == 0
        assert p.cancel_job(p.start_kick(asked, by="staff", reason="test", expected=0).id, by="staff").done
        assert job.id in [one.id for one in p.jobs()]
        worker = Worker(p)
        worker._turn()
        assert worker.last_error is None
        assert p.history(time.time() - 60, step=3600)
        assert p.worker_status()
        worker._leave()
        assert p.is_online("ada") == ("ada" in p.online_among(["ada"])) == (p.online_users() == ["ada"])
        assert p.count_users() <= 1
        p.sweep()
        p.repair()
        assert p.events()


@on("valkey-sync", "redis7-sync")
def test_trackers_need_the_same_rights_on_keys_of_their_own(bed: Bed) -> None:
    raw = bed.raw
    raw.execute_command("ACL", "SETUSER", "counter", "reset", "on", ">s3cret", "~{acl-trackers}*", *_rights())
    url = f"unix://counter:s3cret@{raw.connection_pool.connection_kwargs['path']}"
    raw.sadd("{acl-trackers}:friends", "ada", "bob")
    with (
        LastSeenTracker.from_url(url, "{acl-trackers}:last.seen", 60) as seen,
        MinuteSetTracker.from_url(url, "{acl-trackers}:seen", 60) as sets,
    ):
        assert seen.touch("ada", 5)
        assert seen.trim() == 1
        assert not seen.forget("ada")
        for tracker in (seen, sets):
            tracker.touch("ada")
            assert tracker.count() == 1
            assert tracker.members() == tracker.online_friends("{acl-trackers}:friends") == ["ada"]
        assert seen.online_friends("{acl-trackers}:friends", reuse_for=1) == ["ada"]
