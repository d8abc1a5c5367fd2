"""The ACL rights in the documents are sufficient for each task, are the ones that the tests grant, and allow nothing
else."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from redis._parsers.commands import CommandsParser

from presence_core import LastSeenTracker, MinuteSetTracker, Presence, SessionFilter, Settings, Unavailable, Worker
from presence_core.client import reshard
from presence_core.operations.maintenance.acl_users import ACL_USERS
from presence_core.operations.maintenance.failure_alerts import check_failures
from presence_core.operations.maintenance.health import COMMANDS
from presence_core.operations.notices import queue
from tests.conftest import Bed, on
from tests.support.cheap_work import READ
from tests.support.fair_clock import PATIENT
from tests.support.notices import claim, finish, queue_notice
from tests.support.place_file import write_place_file

ACL_PAGE = Path(__file__).parents[3] / "docs/run/acl.md"


def _rights() -> list[str]:
    section = ACL_PAGE.read_text("utf-8").split("## A user with all rights")[1].split("\n## ")[0]
    return re.findall(r"\+[@a-z_]+(?:\|[a-z]+)?", section)


@on("valkey-sync", "redis7-sync")
def test_a_user_with_the_documented_rights_may_do_everything(bed: Bed) -> None:
    raw = bed.raw
    raw.execute_command("ACL", "SETUSER", "site", "reset", "on", ">s3cret", "~{acl:*}*", "~{acl}*", *_rights())
    path = raw.connection_pool.connection_kwargs["path"]
    settings = Settings(namespace="acl", max_sessions_per_device=1, rotate_grace=30, timeout=PATIENT)
    with Presence.from_url(f"unix://site:s3cret@{path}", settings) as p:
        login = p.login("ada", device="phone", user_agent="curl/8", name="Ada")
        assert p.validate(login.token)
        assert p.validate_session("ada", login.session.session_id)
        login = p.rotate(login.token)
        login = p.rotate(login.token)
        assert p.update(login.token, attributes={"a": 1})
        assert p.update_session("ada", login.session.session_id, name="Bea", device="desk")
        assert p.update_person("ada", name="Ada") == 1
        assert p.heartbeat("ada", login.session.session_id)
        assert p.heartbeats([login.session.ref]) == []
        assert p.get("ada", login.session.session_id)
        assert len(p.sessions("ada")) == len(list(p.iter_sessions())) == p.counts().sessions == 1
        p.login("ada", device="phone")
        assert p.change_timeouts("ada", idle_timeout=600, by="staff", reason="test")
        asked = SessionFilter(uid="ada")
        assert p.change_timeouts_where(asked, idle_timeout=60, expected=9, by="staff", reason="test").changed
        assert p.kick("ada", by="staff", reason="test", message="bye")
        session = p.login("ada").session
        assert p.kick("ada", session.session_id, by="staff", reason="test")
        two = p.login("ada").session
        assert p.logout("ada", two.session_id)
        p.block("ada", by="staff", reason="test", duration=60)
        assert p.blocked("ada")
        assert p.blocks().total == 1
        assert p.unblock("ada", by="staff", reason="test")
        rule = p.add_block_rule(network="192.0.2.0/24", by="staff", reason="test", expected=0)
        assert p.remove_block_rule(rule.id, by="staff", reason="test")
        p.denied(by="viewer", what="kick")
        p.audit_note(by="staff", what="export", outcome="1 session exported")
        p.set_staff("root", "admin", by="command line")
        assert not p.remove_staff("nobody", by="root")
        assert p.staff() == [p.staff_member("root")]
        assert p.save_item("view", "mine", "q=a", by="root") == p.saved_items("view", owner="root")[0]
        assert p.remove_item("view", "mine", by="root")
        request = p.ask_approval(filter=SessionFilter(uid="ada"), sessions=1, by="staff", reason="test")
        assert p.answer_request(request.id, "approve", by="root").state == "approved"
        assert p.finish_request(request.id, by="root", outcome="done") == p.approval_requests()[0]
        assert p.note_viewer("ada", by="root") == []
        remark = p.add_remark("ada", "refunds", by="root")
        assert p.remarks() == p.remarks("ada") == p.remarks_among(["ada"])["ada"] == [remark]
        assert p.remove_remark("ada", remark.id, by="root")
        assert len(p.audit()) == p.audit().total == 16
        assert len(p.ended()) == 4
        assert p.ended("ada")
        p.login("bob", device="phone")
        asked = SessionFilter(device="phone")
        job = p.start_kick(asked, by="staff", reason="test", expected=p.preview_kick(asked).total)
        p.pause_job(job.id, by="staff")
        p.resume_job(job.id, by="staff")
        assert p.run_job(job.id).count == 1
        assert p.kick_where(asked, by="staff", reason="test", expected=0).count == 0
        assert p.cancel_job(p.start_kick(asked, by="staff", reason="test", expected=0).id, by="staff").done
        assert job.id in [job.id for job in p.jobs()]
        worker = Worker(p)
        worker._turn()
        assert worker.last_error is None
        assert p.history(time.time() - 60, step=3600)
        assert p.worker_status()
        worker._leave()
        assert p.export_person("ada")["ended"]
        assert p.erase("ada", by="staff", reason="asked").complete
        assert p.is_online("ada") == ("ada" in p.online_among(["ada"])) == (p.online_users() == ["ada"])
        assert p.count_users() <= 1
        p.sweep()
        p.repair()
        assert p.events()


@on("valkey-sync", "redis7-sync")
def test_a_reshard_needs_only_the_documented_additional_rights(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reshard, "KEEP_OLD_KEYS_SECONDS", 0.0)
    section = (ACL_PAGE.parent / "reshard.md").read_text("utf-8").split("## Rights for a reshard")[1].split("\n## ")[0]
    more = re.findall(r"\+[a-z]+", section)
    assert "+restore" in more
    at = bed.raw.connection_pool.connection_kwargs["path"]
    url, keys = f"unix://mover:s3cret@{at}", ("~{acl-move:*}*", "~{acl-move}*")
    with Presence.from_url(url.replace("mover:s3cret@", ""), Settings(namespace="acl-move", timeout=PATIENT)) as p:
        p.kick("ada", p.login("ada", device="phone").session.session_id, by="staff", reason="test")
        p.login("ada")
    for rights, goal in ((_rights(), 2), ([*_rights(), *more], 4)):
        bed.raw.execute_command("ACL", "SETUSER", "mover", "reset", "on", ">s3cret", *keys, *rights)
        with Presence.from_url(url, Settings(namespace="acl-move", timeout=PATIENT)) as p:
            if goal == 2:
                with pytest.raises(Unavailable, match=r"docs/run/acl\.md lists"):
                    p.reshard(goal)
            else:
                assert p.reshard(goal).sessions == 1
            assert p.counts().sessions == 1


@on("valkey-sync", "redis7-sync")
def test_a_user_with_all_documented_rights_can_disturb_no_connection_and_no_server(bed: Bed) -> None:
    bed.raw.execute_command("ACL", "SETUSER", "site", "reset", "on", ">s3cret", "~{acl:*}*", "~{acl}*", *_rights())
    for line in ("CLIENT KILL ID 5", "CLIENT PAUSE 9000", "CLIENT LIST", "KEYS *", "SCAN 0", "FLUSHALL", "FLUSHDB",
                 "CONFIG GET *", "DEBUG SLEEP 0", "SHUTDOWN", "SCRIPT FLUSH", "ACL LIST", "GET other"):  # fmt: skip
        answer = bed.raw.execute_command("ACL", "DRYRUN", "site", *line.split())
        assert b"no permissions" in answer or b"has no" in answer, line


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


# -- four users, each with a task of its own ---------------------------------------------------------------------------


def _as(bed: Bed, role: str, **settings: Any) -> Presence:
    """A client that signs in as this user of docs/run/acl.md."""
    [line] = re.findall(rf"^user (presence-{role} .*)$", ACL_PAGE.read_text("utf-8"), re.MULTILINE)
    words = line.replace("{online", "{" + bed.namespace).replace("PASSWORD", "s3cret")
    rules = ["ACL", "SETUSER", *re.findall(r"\([^)]*\)|\S+", words)]
    if bed.is_cluster:
        [more] = re.findall(r"On a cluster add `([^`]+)`", ACL_PAGE.read_text("utf-8"))
        bed.raw.execute_command(*rules, *more.split(), target_nodes="all")
        url = bed.url.replace("://", f"://presence-{role}:s3cret@")
    else:
        bed.raw.execute_command(*rules)
        url = f"unix://presence-{role}:s3cret@{bed.raw.connection_pool.connection_kwargs['path']}"
    presence = Presence.from_url(url, Settings(namespace=bed.namespace, **settings, timeout=PATIENT))
    bed._open.append(presence.close)
    return presence


def _refused(bed: Bed, calls: dict[str, Callable[[], Any]]) -> None:
    """Each call fails with a sentence that names the missing right, and nothing has changed."""
    before = bed.dump()
    for name, call in calls.items():
        with pytest.raises(Unavailable) as caught:
            call()
        assert caught.value.code == "NOPERM", name
        assert re.search(r"does not permit this: .* docs/run/acl\.md lists", str(caught.value)), name
    assert bed.dump() == before


@on("valkey-sync", "redis7-sync")
def test_the_sites_user_records_logins_but_no_data_of_staff_and_workers(bed: Bed, tmp_path: Path) -> None:
    staff = bed.connect()
    places = str(write_place_file(tmp_path / "places.mmdb"))
    p = _as(
        bed, "site", max_sessions=2, max_sessions_per_device=1, place_file=places, rotate_grace=30, keep_sign_ins=30
    )
    login = p.login("ada", device="phone", user_agent="curl/8", name="Ada", ip="192.0.2.1", attributes={"a": 1})
    p.login_many([{"uid": "ada", "device": "phone"}, {"uid": "bob"}, {"uid": "bob"}, {"uid": "bob"}])
    assert not p.validate(login.token)
    login = p.rotate(p.login("eve").token)
    assert p.rotate(p.rotate(login.token).token).session == p.rotate(login.token).session
    assert p.update(login.token, attributes={"a": 1})
    assert p.update_session("eve", login.session.session_id, name="Eve", device="desk", aliases=["eve@example.org"])
    assert p.update_person("eve", name="Eva") == 1
    assert p.people("eve@")[0].name == "Eva"
    assert p.validate(login.token, ip="192.0.2.7")
    assert p.validate(login.token, ip="203.0.113.7").moved
    assert p.counts().odd_logins["moved"] == 1
    for ip, device_id in (("192.0.2.7", "device-1"), ("203.0.113.7", "device-2")):
        far = p.login("zoe", ip=ip, device_id=device_id).session
        time.sleep(0.002)  # a login of the same millisecond is no previous one
    assert far.distant
    assert p.sign_ins("zoe")[0].distant
    assert p.previous_login("zoe", far.session_id) == p.sign_ins("zoe")[1]
    queue_notice(p, far)
    assert claim(p, "zoe").notice == p.notices_of("zoe")[0]
    assert p.answer_notice("zoe", far.session_id, far.login_at, "not_me", until=time.time() + 60, block_for=1)
    assert p.notices().counts["not_me"] == 1
    assert p.kick("zoe", by="zoe", reason="test").count == 1
    assert p.heartbeat("eve", login.session.session_id)
    assert p.heartbeats([login.session.ref, "nobody:session-1"]) == ["nobody:session-1"]
    assert p.validate_session("eve", login.session.session_id)
    assert p.get("eve", login.session.session_id)
    assert p.sessions("eve")
    assert len(p.list_sessions()) == len(p.list_sessions(order="last_seen")) == p.counts().sessions == 4
    assert p.is_online("eve")
    assert set(p.online_users()) == p.online_among(["ada", "bob", "eve"]) == {"ada", "bob", "eve"}
    assert p.logout("eve", login.session.session_id)
    assert p.kick("bob", by="bob", reason="new password", message="Sign in again.", block_for=60).count == 2
    assert p.blocked("bob")
    assert p.unblock("bob", by="site", reason="test")
    bed.connect().login_many({"uid": "many"} for _ in range(60))
    assert p.kick("many", by="many", reason="new password").count == 60  # more than one script ends whole
    assert p.events()
    assert p.ended("bob").items[0].note == "new password"
    asked = SessionFilter(uid="ada")
    worker = Worker(p)
    _refused(
        bed,
        {
            "bulk kick": lambda: p.start_kick(asked, by="site", reason="test", expected=5),
            "jobs": p.jobs,
            "audit": p.audit,
            "denied": lambda: p.denied(by="site", what="kick"),
            "history": lambda: p.history(time.time() - 60),
            "the worker's lead": worker._beat,
        },
    )
    assert staff.counts().sessions == 1


@on("valkey-sync", "redis7-sync")
def test_a_user_who_may_not_read_the_workers_lead_goes_on_without(bed: Bed) -> None:
    p = _as(bed, "site")
    ctx, token, said = p.internal.context, p.login("ada").token, list[str]()
    ctx.on_worker = said.append
    ctx.cache.look_at = ctx.cache.worker_at = 1.0
    assert p.validate(token)
    assert len(said) == 1
    keys = (f"~{{{bed.namespace}:*}}*", f"~{ctx.keys.layout}")  # as in a document of before
    bed.raw.execute_command("ACL", "SETUSER", "presence-site", "resetkeys", *keys)
    ctx.cache.look_at = ctx.cache.worker_at = 1.0
    assert p.validate(token)
    assert len(said) == 1
    assert p.internal.context.cache.worker_at == math.inf


@on("valkey-sync", "redis7-sync")
def test_the_worker_can_do_its_duties_but_begin_no_session(bed: Bed) -> None:
    site = bed.connect(idle_timeout=60, keep_sign_ins=30)
    old = {"uid": "u0", "login_at": time.time() - 2 * 86_400, "absolute_timeout": 3 * 86_400}
    site.login_many([old], imported=True)
    site.login_many({"uid": f"u{n}", "name": f"N {n}", "ip": "192.0.2.1", "user_agent": "curl/8"} for n in range(20))
    site.kick("u1", by="staff", reason="test")
    site.block("u2", by="staff", reason="test", duration=1)
    asked = SessionFilter(name_prefix="n 3")
    job = site.start_kick(asked, by="staff", reason="test", expected=1)
    times = site.start_timeouts(
        SessionFilter(name_prefix="n 4"), idle_timeout=50, by="staff", reason="test", expected=1
    )
    p = _as(bed, "worker", idle_timeout=60, truncate_addresses_after=0, keep_sign_ins=1)
    worker = Worker(p)
    for _ in range(2):
        for duty in worker._duties:
            duty.due = 0.0
        worker._turn()
        assert worker.last_error is None
    assert worker.leads
    done = site.job(job.id)
    assert done is not None
    assert (done.state, done.kicked) == ("done", 1)
    changed = site.job(times.id)
    assert changed is not None
    assert (changed.state, changed.kicked, site.sessions("u4")[0].idle_timeout) == ("done", 1, 50)
    for _ in range(2):
        site.login_failed("u6", why="wrong_password", ip="203.0.113.9")
    assert len(p.internal.run(check_failures(p.internal.context, 1, 1, bed.time.ms))) == 2
    queue_notice(p, site.sessions("u5")[0])
    assert finish(p, claim(p, "u5"))
    p.internal.run(queue.note_turn(p.internal.context, {"sent": 1}, None))
    bed.time.set(bed.time.ms + 3_600_000)  # for the site's client; the worker does not find the layout itself
    p.internal.context.now = site.context.now
    assert p.sweep().expired == 18
    assert len(site.sign_ins("u0")) == 1, "the older one is trimmed"
    worker._leave()
    login = {"name": "Ada", "user_agent": "curl/8"}
    _refused(bed, {"login": lambda: p.login("ada"), "login_many": lambda: p.login_many([{"uid": "ada", **login}])})


@on("valkey-sync", "redis7-sync")
def test_a_dashboard_viewer_can_read_everything_and_change_nothing(bed: Bed) -> None:
    site = bed.connect()
    token = site.login("ada", name="Ada Lovelace", ip="192.0.2.1", device="phone", user_agent="curl/8").token
    bob = site.login("bob").session
    site.kick("bob", bob.session_id, by="staff", reason="test", message="bye")
    site.block("bob", by="staff", reason="test")
    site.add_block_rule(network="198.51.100.0/24", by="staff", reason="test", expected=0)
    asked = SessionFilter(uid="nobody")
    job = site.kick_where(asked, by="staff", reason="test", expected=0).job
    assert job is not None
    p = _as(bed, "viewer", heal=False)
    assert [session.uid for session in p.list_sessions()] == [session.uid for session in p.sessions("ada")] == ["ada"]
    assert [session.uid for session in p.list_sessions(order="last_seen")] == ["ada"]
    for text in ("ada", "love", "192.0.2.0/24"):
        assert len(p.list_sessions(SessionFilter(text=text))) == p.count_sessions(SessionFilter(text=text)) == 1
    assert p.explain(SessionFilter(device="phone")).matches == 1
    assert p.people("lovel")[0].online
    assert p.counts().sessions == 1
    assert p.facets("device") == {"phone": 1}
    assert p.history(time.time() - 60, step=3600) == []
    assert p.ended("bob").items[0].note == "test"
    assert len(p.ended()) == 1
    assert p.blocked("bob")
    assert p.blocks().total == 1
    assert p.block_rules()[0].everywhere
    assert p.preview_block_rule(network="192.0.2.0/24").people == 1
    assert {entry.action for entry in p.audit()} >= {"kick", "block"}
    assert p.events()
    assert p.notices().turn_at is None
    assert p.notices_of("ada") == []
    assert p.job(job.id)
    assert len(p.jobs()) == 1
    assert p.preview_kick(asked).total == 0
    assert p.worker_status() is None
    assert p.is_online("ada")
    assert p.online_users() == ["ada"]
    p.denied(by="viewer", what="kick", uid="ada")
    assert p.audit().items[0].action == "denied"
    said: dict[str, Any] = {"by": "viewer", "reason": "test"}
    under_way = site.start_kick(asked, expected=0, by="staff", reason="test")
    session = site.sessions("ada")[0]
    _refused(
        bed,
        {
            "kick": lambda: p.kick("ada", **said),
            "kick one": lambda: p.kick("ada", session.session_id, **said),
            "kick by ref": lambda: p.kick_refs([session.ref], **said),
            "logout": lambda: p.logout("ada", session.session_id),
            "block": lambda: p.block("ada", **said),
            "unblock": lambda: p.unblock("bob", **said),
            "revoke_before": lambda: p.revoke_before(**said),
            "block rule": lambda: p.add_block_rule(network="::1", expected=0, **said),
            "bulk kick": lambda: p.start_kick(asked, expected=5, **said),
            "pause": lambda: p.pause_job(under_way.id, by="viewer"),
            "login": lambda: p.login("eve"),
            "rotate": lambda: p.rotate(token),
            "update": lambda: p.update(token, attributes={"a": 1}),
            "update_session": lambda: p.update_session("ada", session.session_id, name="New"),
            "update_person": lambda: p.update_person("ada", name="New"),
            "validate": lambda: p.validate(token),
            "heartbeat": lambda: p.heartbeat("ada", session.session_id),
            "sweep": p.sweep,
            "repair": p.repair,
            "the worker's lead": Worker(p)._beat,
        },
    )


@on("valkey-sync", "redis7-sync")
def test_a_dashboard_supporter_can_end_sessions_but_begin_none(bed: Bed) -> None:
    site = bed.connect()
    site.login_many({"uid": uid, "user_agent": "curl/8", "name": uid} for uid in "abcdefgg")
    p = _as(bed, "support")
    said: dict[str, Any] = {"by": "staff", "reason": "test"}
    site.login("f", on_behalf_by="staff", reason="test")
    assert len(p.change_timeouts("f", absolute_timeout=600, **said)) == 2
    assert p.change_timeouts_where(SessionFilter(uid="f"), idle_timeout=60, expected=2, **said).changed == 2
    assert p.require_sign_in("f", **said).skipped == 1
    assert p.kick_refs([session.ref for session in site.sessions("f") if session.on_behalf_by], **said).count == 1
    assert p.kick("a", message="bye", ticket="T-1", block_for=60, **said)
    assert p.add_block_rule(network="198.51.100.0/24", expected=0, **said).everywhere
    assert p.kick("b", site.sessions("b")[0].session_id, **said)
    site.login_many({"uid": "many", "device": f"d{number}", "ip": "192.0.2.1"} for number in range(60))
    assert p.kick("many", message="bye", **said).count == 60  # more than one script ends whole
    assert p.kick("g", keep=[site.sessions("g")[0].session_id], **said).count == 1
    p.block("c", duration=60, **said)
    assert p.unblock("c", **said)
    assert p.ended("a").items[0].public.message == "bye"
    assert p.kick_where(SessionFilter(uid="d"), expected=1, **said).count == 1
    job = p.start_kick(SessionFilter(uid="e"), expected=1, **said)
    assert p.pause_job(job.id, by="staff").state == "paused"
    assert p.resume_job(job.id, by="staff").state == "running"
    assert p.cancel_job(job.id, by="staff").done
    assert p.revoke_before(**said) == 4
    assert p.counts().sessions == 0
    assert len(p.audit()) >= 7
    p.denied(by="viewer", what="kick")
    _refused(
        bed,
        {
            "login": lambda: p.login("ada"),
            "login_many": lambda: p.login_many([{"uid": "ada"}]),
            "the worker's lead": Worker(p)._beat,
        },
    )


@on("valkey-sync", "redis7-sync")
def test_a_dashboard_with_a_sign_in_needs_only_the_documented_additional_rights(bed: Bed) -> None:
    support = _as(bed, "support")
    settings = Settings(namespace=f"{bed.namespace}-staff", timeout=PATIENT)
    path = bed.raw.connection_pool.connection_kwargs["path"]
    with Presence.from_url(f"unix://presence-support:s3cret@{path}", settings) as sign_ins:
        for call in (lambda: sign_ins.login("root"), lambda: support.seed_staff("root", "admin", by="sign-in")):
            with pytest.raises(Unavailable, match=r"docs/run/acl\.md lists"):
                call()
        [more] = re.findall(r"with a \[sign-in\].*?`\(([^`]+) RIGHTS\)`", ACL_PAGE.read_text("utf-8"), re.DOTALL)
        selector = f"({more.replace('{online', '{' + bed.namespace)} {' '.join(_rights())})"
        bed.raw.execute_command("ACL", "SETUSER", "presence-support", selector)
        login = sign_ins.login("root", app="dashboard")
        assert sign_ins.validate(login.token)
        assert sign_ins.reauthenticated(login.token).session.uid == "root"
        assert support.seed_staff("root", "admin", by="sign-in").role == "admin"
        assert support.set_staff("dana", "support", by="root").role == "support"
        assert support.remove_staff("dana", by="root")
        assert sign_ins.logout("root", login.session.session_id)
        assert not sign_ins.sweep(limit=100).expired


NOBODYS = [
    "KEYS *", "SCAN 0", "RANDOMKEY", "DBSIZE", "FLUSHALL", "FLUSHDB", "SWAPDB 0 1", "CONFIG GET *",
    "CONFIG SET maxmemory 1", "DEBUG SLEEP 0", "SHUTDOWN NOSAVE", "SAVE", "BGREWRITEAOF", "REPLICAOF NO ONE",
    "MONITOR", "SLOWLOG GET", "CLIENT LIST", "CLIENT KILL ID 1", "CLIENT PAUSE 1000", "ACL LIST", "ACL WHOAMI",
    "SCRIPT FLUSH", "FUNCTION LIST", "EVAL x 0", "MODULE LIST", "PUBLISH a b", "SUBSCRIBE a",
    "GET {other:1:0}:sessions", "HGETALL {other}:layout", "GET session:ada", "HGETALL {NS}:keys",
    "HSET {NS}:keys a b", "RESTORE {NS:1:0}:users 0 x", "DUMP {NS:1:0}:users", "COPY {NS:1:0}:users b",
]  # fmt: skip


@on("valkey-sync", "redis7-sync")
def test_none_of_the_four_users_has_a_right_that_no_task_needs(bed: Bed) -> None:
    for role in ("site", "worker", "viewer", "support"):
        _as(bed, role)
        for line in NOBODYS:
            words = line.replace("NS", bed.namespace).split()
            answer = bed.raw.execute_command("ACL", "DRYRUN", f"presence-{role}", *words)
            assert b"no permissions" in answer or b"has no" in answer, f"{role}: {line}"


@on("valkey-sync", "redis7-sync")
def test_health_judges_each_of_the_four_users_by_the_rights_that_its_own_task_needs(bed: Bed) -> None:
    bed.connect().login("ada")
    for role, needed in (("site", "hsetnx"), ("worker", "xtrim"), ("support", "zadd"), ("viewer", "zscore")):
        p = _as(bed, role, heal=role != "viewer")
        [finding] = [finding for finding in p.health().findings if finding.subject == "permissions"]
        assert (finding.level, finding.advice) == ("note", None), role
        assert finding.text.startswith(f"Checked as presence-{role}. Not permitted, nor needed there: ")
        assert finding.text.endswith(", changes of the worker's keys.") == (role != "worker")
        bed.raw.execute_command("ACL", "SETUSER", f"presence-{role}", f"-{needed}")
        [finding] = [finding for finding in p.health().findings if finding.subject == "permissions"]
        assert finding.level == "error", role
        assert needed in finding.text, role


@on("valkey-sync")
def test_health_reports_a_key_that_the_sites_user_may_not_read(bed: Bed) -> None:
    p = _as(bed, "site")
    bed.raw.execute_command("ACL", "SETUSER", "presence-site", "resetkeys", f"%R~{{{bed.namespace}}}:worker",
                            f"%R~{{{bed.namespace}}}:layout", f"~{{{bed.namespace}:*}}:[^m]*")  # fmt: skip
    assert [finding.level for finding in p.health().findings if finding.subject == "permissions"] == ["error", "note"]


def test_health_knows_which_commands_each_of_the_four_users_does_not_need() -> None:
    for user in ACL_USERS:
        [line] = re.findall(rf"^user presence-{user.name} (.*)$", ACL_PAGE.read_text("utf-8"), re.MULTILINE)
        everywhere = re.sub(r"\(.*?\)", "", line)
        given = {
            word.split("|")[0] if "script" not in word else "script load" for word in re.findall(r"\+(\S+)", everywhere)
        }
        assert set(COMMANDS) - given == user.not_needed, user.name


@on("cluster-sync")
def test_on_a_cluster_the_four_users_need_few_more_rights(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CommandsParser, "initialize", READ)  # as on a site: each client needs the right to COMMAND
    site, support, viewer = _as(bed, "site"), _as(bed, "support"), _as(bed, "viewer", heal=False)
    site.login_many({"uid": f"u{number}", "device": "phone"} for number in range(30))
    assert len(viewer.list_sessions()) == viewer.facets("device")["phone"] == 30
    assert support.kick_where(SessionFilter(device="phone"), by="staff", reason="test", expected=30).count == 30
    worker = Worker(_as(bed, "worker"))
    worker._turn()
    assert worker.last_error is None
    site.login("ada")
    _refused(bed, {"kick": lambda: viewer.kick("ada", by="viewer", reason="test"), "login": lambda: support.login("b")})
