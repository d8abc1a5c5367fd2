"""Which keys are touched, declared and left behind."""

from __future__ import annotations

import random
import re
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from redis.crc import key_slot

from presence_core import CorruptData, InvalidArgument, LoginRefused, NoticeAnswer, SessionFilter, Worker
from presence_core.client import reshard
from presence_core.keyspace import Keyspace
from presence_core.operations.maintenance import history
from presence_core.operations.mirror import copies, reports
from presence_core.operations.notices import queue
from presence_core.scripts import EVERY
from tests.conftest import Bed, every_backend, every_topology, on
from tests.support.facade import P
from tests.support.monitor import Line, Monitor
from tests.support.notices import claim, finish, queue_notice
from tests.support.place_file import write_place_file
from tests.support.soak import size

KEY_TABLE = (Path(__file__).parents[3] / "docs" / "keys.md").read_text("utf-8")
DOCUMENTED = {
    name.partition("<")[0]
    for cells in re.findall(r"^\| (`(?:T|\{<namespace>\}):[^|]*) \|", KEY_TABLE, re.MULTILINE)
    for name in re.findall(r"`(?:T|\{<namespace>\}):([^`]*)`", cells)
}
"""The table of keys, by family. ``name:`` means a key per user, session or text."""

TRACKERS = {script.name for script in EVERY if script.name.startswith("trackers/")}  # test_trackers.py watches them
WRITERS = {script.name for script in EVERY if script.command == "EVALSHA"} - TRACKERS
MOVERS = {name for name in WRITERS if name.startswith("reshard/")}

SETTINGS: dict[str, Any] = {"max_sessions": 3, "max_sessions_per_device": 2, "max_events": 100, "facets": ("plan",),
                            "truncate_addresses_after": 0, "rotate_grace": 30, "keep_sign_ins": 1}  # fmt: skip


def _everything(p: P) -> None:
    """Call every public method so that its script takes every branch."""
    logins = [p.login("a:{b}", device=f"d{n % 2}", name="N", user_agent="curl/8", ip="::1") for n in range(5)]
    p.login_many([{"uid": f"u{number}", "idle_timeout": 10} for number in range(40)])
    p.login_many([{"uid": "old", "login_at": time.time() - 60}], imported=True)
    p.login_many([{"uid": f"o{n}", "name": "N", "ip": "::1", "attributes": {"plan": "pro"}, "login_at": time.time() - n,
                   "user_agent": f"curl/{n}", "methods": ["pwd"]} for n in range(40)], imported=True)  # fmt: skip
    last = logins[-1]
    p.login("a:{b}", session_id=last.session.session_id, device="other")
    last = p.login("a:{b}", session_id=last.session.session_id)
    p.login("u35", idp={"iss": "https://idp.example.com", "sub": "1", "sid": "2"}, expires_at=4e9)
    mirrored = "mirror-0123456789"
    p.login_many([{"uid": "u36", "session_id": mirrored, "login_at": time.time() - 60}], imported=True)
    p.internal.run(copies.follow(p.context, [copies.Life("u36", mirrored, round(time.time() * 1000), 60)]))
    p.internal.run(copies.end(p.context, [copies.SiteEnd("u36", mirrored, False)]))
    p.internal.run(reports.report(p.context, "express", {"store": "x"}))
    p.mirrors()
    for device_id in ("device-1", "device-2"):
        p.login("u39", device_id=device_id)
    for ip in ("192.0.2.7", "203.0.113.7"):
        far = p.login("u38", ip=ip, user_agent="curl/8.7.1")
    assert p.validate(far.token, ip="192.0.2.7", user_agent="Wget/1.21").moved
    p.rotate_device_key(by="staff", reason="each year")
    p.validate(last.token, ip="192.0.2.1")
    p.validate(logins[0].token)
    p.validate("malformed")
    p.validate_session("a:{b}", last.session.session_id)
    last = p.rotate(last.token)
    old = p.login("u37")
    p.set_now(p.freeze() - 30_000)
    p.rotate(p.rotate(old.token).token)
    p.rotate(old.token)
    p.clock.run_freely()
    p.validate(old.token)
    p.require_sign_in("a:{b}", by="staff", reason="odd", message="Please sign in.")
    last = p.reauthenticated(last.token, methods=["pwd"])
    p.reauthenticated_session("a:{b}", last.session.session_id)
    p.require_sign_in("a:{b}", by="staff", reason="odd", message="Please sign in.")
    p.change_timeouts("a:{b}", absolute_timeout=90_000, by="staff", reason="kiosk")
    last = p.reauthenticated(last.token, methods=["pwd"])
    p.update(last.token, attributes={"plan": "free", "a": 1})
    p.update_session("a:{b}", last.session.session_id, attributes={"plan": "pro", "a": None})
    p.update_session("a:{b}", last.session.session_id, name="Mo", aliases=["mo@example.org"], device="d7", app="shop")
    p.update_person("a:{b}", name="Lo", aliases=None)
    p.update_person("old", name="Lo")
    p.update_person("nobody", name="Lo")
    p.heartbeat("u1", "no-such-session")
    p.heartbeats([session.ref for session in p.list_sessions()])
    p.get("a:{b}", last.session.session_id)
    p.sessions("a:{b}")
    p.list_sessions(limit=3, cursor=p.list_sessions(limit=3).next_cursor)
    list(p.iter_sessions(page_size=5))
    p.counts()
    p.is_online("u1")
    p.online_among([f"u{number}" for number in range(50)])
    p.sessions_among([session.ref for session in p.list_sessions()])
    p.blocked_among([f"u{number}" for number in range(50)])
    p.online_users(within=600)
    p.count_users()
    for asked in (SessionFilter(text="a"), SessionFilter(text="::"), SessionFilter(ip="::/0"), SessionFilter(uid="u1"),
                  SessionFilter(device="d1"), SessionFilter(name_contains="n", idle_for=0)):  # fmt: skip
        p.list_sessions(asked)
        p.count_sessions(asked)
        p.explain(asked)
    p.facets("browser")
    p.people("u")
    p.names_of([f"u{number}" for number in range(50)])
    p.did_you_mean("Nmae")
    p.events(after=p.events(limit=5)[-1].cursor)
    next(p.watch(after=p.events(limit=1)[0].cursor))
    p.logout("u1", p.sessions("u1")[0].session_id)
    p.logout_others("a:{b}", last.session.session_id, logins[0].session.session_id)
    p.logout_others("u3", p.sessions("u3")[0].session_id)
    p.kick("u2", p.sessions("u2")[0].session_id, by="staff", reason="one", message="hello")
    p.kick("a:{b}", by="staff", reason="all", keep=[last.session.session_id])
    p.kick("a:{b}", by="staff", reason="all", ticket="T")
    p.kick("nobody", by="staff", reason="nothing")
    p.kick_refs([p.sessions("u6")[0].ref, "nobody:no-such-session"], by="staff", reason="some", message="hello")
    _bulk_kicks(p)
    for uid in ("a:{b}", "u4", "u5"):
        p.block(uid, by="staff", reason="hold", message="Held.", ticket="T", duration=10)
    p.unblock("u4", by="staff", reason="paid")
    p.unblock("nobody", by="staff", reason="nothing")
    p.blocks(limit=1, cursor=p.blocks(limit=1).next_cursor)
    p.preview_block_rule(network="198.51.100.0/24")
    p.add_block_rule(network="198.51.100.0/24", by="staff", reason="attack of a:{b}", expected=0, duration=10)
    rule = p.add_block_rule(app="old", app_version="1", by="staff", reason="broken", expected=0)
    p.remove_block_rule(rule.id, by="staff", reason="over")
    p.login_many([{"uid": "u5", "ip": "198.51.100.7"}])
    p.block_rules()
    for number in range(210):
        p.denied(by=f"viewer {number}", what="kick", uid="a:{b}", reason="viewer")
    p.login_failed("u1", why="wrong_password", ip="192.0.2.7")
    p.login_failed("kim@example.org", why="unknown_name", ip="192.0.2.7")
    p.failed_logins("u1")
    p.failed_logins(limit=1, cursor=p.failed_logins(limit=1).next_cursor)
    p.failed_networks()
    p.audit_note(by="staff", what="export", outcome="3 sessions exported", uid="a:{b}")
    p.set_staff("root", "admin", by="staff")
    p.seed_staff("eve", "viewer", by="staff")
    p.add_staff("dan", "viewer", by="staff")
    p.remove_staff("root", by="staff", force=True)
    p.staff()
    p.save_item("view", "mine", "q=a", by="staff")
    p.save_item("view", "ours", "q=a", by="staff", shared=True)
    p.save_item("view", "renamed", "q=a", by="staff", shared=True, instead_of="ours")
    p.remove_item("view", "renamed", by="staff", shared=True)
    p.save_item("watch", "a:{b}", "N", by="staff")
    p.saved_items("view", owner="staff")
    p.remove_remark("a:{b}", p.add_remark("a:{b}", "refunds", by="staff").id, by="staff")
    p.add_remark("u6", "refunds", by="staff")
    p.remarks()
    p.remarks_among(["a:{b}", "u6"])
    _notices(p)
    wish: dict[str, Any] = {"filter": SessionFilter(uid="a:{b}"), "by": "staff", "reason": "why", "sessions": 1}
    p.answer_request(p.ask_approval(network="::1", **wish).id, "refuse", by="eve", word="No.")
    p.answer_request(approved := p.ask_approval(**wish).id, "approve", by="eve")
    p.finish_request(approved, by="eve", outcome="done")
    p.ask_approval(**wish)
    for by in ("staff", "eve"):
        p.note_viewer("u1", by=by)
    p.note_viewer("u1", by="staff", closed=True)
    p.staff_member("eve")
    p.export_person("a:{b}")
    p.erase("u4", by="staff", reason="asked")
    p.erase("a:{b}", by="staff", reason="asked")
    p.audit(limit=3, cursor=p.audit(limit=3).next_cursor)
    p.audit(uid="u4")
    p.ended(limit=3, cursor=p.ended(limit=3).next_cursor)
    p.ended("a:{b}", reason="kicked", by="staff")
    now = p.clock.ms
    for at in (now, now, now + 10_000):
        p.set_now(at)
        p.internal.run(history.sample(p.internal.context, at))
    p.internal.run(history.split(p.internal.context, p.clock.ms, {"web": 1}, {"phone": 1}))
    p.history(now / 1000 - 60)
    p.history(now / 1000 - 60, step=3600)
    workers = [Worker(p, accept_clock=accept) for accept in (False, True)]
    for worker in workers:
        worker._turn()
    for worker in workers:
        worker._leave()
    p.worker_status()
    p.revoke_before(p.clock.ms / 1000 - 30, by="staff", reason="test", message="hello")
    p.reindex()
    p.advance(20)
    p.sessions("u3")
    p.online_among([f"u{number}" for number in range(500)])
    p.online_users()
    p.count_users(5)
    p.list_sessions()
    p.blocked("u5")
    p.blocks()
    p.sweep(limit=10)
    p.sweep()
    p.repair()
    p.advance(8 * 86400)
    p.approval_requests()
    p.sweep()


ANSWERS: tuple[NoticeAnswer, ...] = ("me", "not_me")


def _notices(p: P) -> None:
    sessions = [p.login("u7").session for _ in range(3)]
    for session in sessions:
        queue_notice(p, session)
    run, ctx = p.internal.run, p.internal.context
    run(queue.due(ctx, 10))
    finish(p, claim(p, "u7"))
    finish(p, claim(p, "u7"), "waiting", 1)
    run(queue.note_turn(ctx, {"sent": 1, "unsure": 1}, "away"))
    run(queue.note_turn(ctx, {}, None, has_sent=True))
    p.notices()
    for session, answer in zip(sessions, ANSWERS, strict=False):
        p.notice_is_open("u7", p.notices_of("u7")[0].id)
        assert p.answer_notice("u7", session.session_id, session.login_at, answer, until=p.clock.now.timestamp() + 9e5)


def _bulk_kicks(p: P) -> None:
    p.advance(0.001)
    asked = SessionFilter(device="bulk")
    p.login_many([{"uid": f"b{number}", "device": "bulk"} for number in range(9)])
    p.preview_kick(asked)
    p.advance(0.001)
    why: dict[str, Any] = {"by": "staff", "reason": "bulk", "message": "Bye.", "expected": 9}
    found = p.preview_kick(asked, exclude=[p.sessions("b1")[0].ref])
    job = p.start_kick(found.filter, **why, ticket="T")
    p.pause_job(job.id, by="staff")
    p.resume_job(job.id, by="staff")
    p.run_job(job.id)
    p.cancel_job(p.start_kick(asked, **why).id, by="staff")
    p.kick_where(asked, **why, pace=100)
    p.jobs(limit=1, cursor=p.jobs(limit=1).next_cursor)
    p.job(job.id)


def _declared(words: list[bytes]) -> set[bytes]:
    return set(words[3 : 3 + int(words[2])])


def _keys_of(raw: Any, lines: list[Line]) -> list[set[bytes]]:
    """The keys of a command, as the server reports them."""
    pipe = raw.pipeline(transaction=False)
    for line in lines:
        pipe.execute_command("COMMAND GETKEYS", *line.words)
    answers = pipe.execute(raise_on_error=False)
    return [{key.encode() for key in answer} if isinstance(answer, list) else set() for answer in answers]


def _only_declared(raw: Any, lines: list[Line]) -> set[str]:
    """Check that scripts that write used only their declared keys; returns the names of these scripts."""
    calls, owners = [], []
    script: Line | None = None
    for line in lines:
        if not line.by_script:
            script = line if line.words[0].upper().startswith(b"EVAL") else None
            continue
        assert script is not None
        assert line.words[0].upper() not in (b"KEYS", b"SCAN", b"RANDOMKEY", b"EVAL")
        if script.words[0].upper() == b"EVALSHA":  # a read-only script may derive keys with the same tag
            calls.append(line)
            owners.append(script)
    for line, owner, keys in zip(calls, owners, _keys_of(raw, calls), strict=True):
        undeclared = keys - _declared(owner.words)
        assert not undeclared, f"{line.words[:3]} in {_name(owner)}"
        tags = {key.partition(b"}")[0] for key in _declared(owner.words)}
        assert len(tags) == 1, "all keys of a script carry one hash tag"
    return {_name(owner) for owner in owners}


@on("valkey-sync", "redis7-sync", soak=("valkey", "redis7"))
def test_a_script_that_writes_touches_only_keys_that_it_declared(bed: Bed, raw: Any, tmp_path: Path) -> None:
    p = bed.connect(shards=4, place_file=str(write_place_file(tmp_path / "places.mmdb")), **SETTINGS)
    p.freeze()
    p.counts()
    shard = p.context.keys.shards[0]
    raw.zadd(shard.addresses, {b"4\x00\x00\x00\x00gone:session-1": 0})  # entries that a crash may leave in an index
    raw.zadd(shard.words, {b"nnobody\x00gone": 0})
    raw.zadd(shard.idp, {b"s0123456789abcdefgone:session-1": 0})
    with Monitor(raw) as monitor:
        _everything(p)
    sent = {line.words[0].upper() for line in monitor.lines if not line.by_script}
    assert not sent & {b"KEYS", b"SCAN"}, "nothing may walk the whole database"
    assert _only_declared(raw, monitor.lines) == WRITERS - MOVERS, "every script ran"


@on("valkey-sync", "redis7-sync")
def test_a_reshard_writes_only_keys_that_it_declared(bed: Bed, raw: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reshard, "KEEP_OLD_KEYS_SECONDS", 0.0)
    p, other = bed.connect(shards=2), bed.connect()
    rows = [
        {"uid": f"u{n % 9}", "name": "N", "device": "phone", "user_agent": "curl/8", "ip": "::1"} for n in range(30)
    ]
    p.login_many(rows)
    p.kick("u1", by="staff", reason="why", message="Bye.")
    p.block("u2", by="staff", reason="why")
    other.counts()

    def meanwhile(step: str, _: int) -> None:
        if step == "copy":  # to change something
            other.heartbeats([session.ref for session in other.sessions("u3")])

    with Monitor(raw) as monitor:
        assert p.reshard(4, on_progress=meanwhile).sessions > 20
    assert _only_declared(raw, monitor.lines) >= MOVERS


@on("valkey-sync", "redis7-sync")
def test_read_only_scripts_stay_within_one_hash_tag(bed: Bed, raw: Any) -> None:
    p = bed.connect(shards=4, **SETTINGS)
    p.freeze()
    p.counts()
    with Monitor(raw) as monitor:
        _everything(p)
    lines, tags = [], []
    tag = b""
    for line in monitor.lines:
        if not line.by_script:
            words = line.words
            tag = words[3].partition(b"}")[0] if words[0].upper() == b"EVALSHA_RO" else b""
        elif tag:
            lines.append(line)
            tags.append(tag)
    for keys, expected in zip(_keys_of(raw, lines), tags, strict=True):
        assert {key.partition(b"}")[0] for key in keys} <= {expected}


def _name(call: Line) -> str:
    return {script.sha.encode(): script.name for script in EVERY}[call.words[1]]


def _random_run(p: P, steps: int) -> None:
    random.seed(3)
    uids = ["ada", "a:b", "{x}", "*", "users", "ü😀", "ended", "x:ended:y", "session:z"]
    live: list[tuple[str, str, str]] = []
    for step in range(steps):
        what = random.choice(
            ("login",) * 4
            + ("validate", "heartbeat", "logout", "kick", "all", "hold", "release", "denied", "time", "sweep", "read")
            + ("bulk", "forget")
        )
        uid, sid, token = random.choice(live) if live else ("ada", "no-such-session", "x")
        if what == "login":
            given = {"device": random.choice((None, "phone", "desk")), "user_agent": f"curl/{step % 9}"}
            try:
                login = p.login(random.choice(uids), name="N", idle_timeout=random.choice((None, 30)), **given)  # type: ignore[arg-type]
            except LoginRefused:
                continue
            live.append((login.session.uid, login.session.session_id, login.token))
        elif what == "validate":
            p.validate(token, ip=f"192.0.2.{step % 250}")
        elif what == "heartbeat":
            p.heartbeats([f"{uid}:{sid}"])
        elif what == "logout":
            p.logout(uid, sid)
        elif what == "kick":
            p.kick(uid, sid, by="staff", reason=f"why {step % 5}", message=random.choice((None, "hello")))
        elif what == "all":
            p.kick(uid, by="staff", reason="all", keep=[sid])
        elif what == "hold":
            p.block(uid, by="staff", reason="hold", duration=random.choice((None, 5)))
        elif what == "release":
            p.unblock(random.choice(uids), by="staff", reason="paid")
        elif what == "denied":
            p.denied(by=f"viewer {step % 3}", what="kick", uid=uid)
        elif what == "bulk":
            p.kick_where(SessionFilter(uid=uid), by="staff", reason="bulk", expected=1000)
        elif what == "forget":
            p.erase(uid, by="staff", reason="asked")
        elif what == "time":
            p.advance(random.randrange(20))
        elif what == "sweep":
            p.sweep()
        else:
            p.list_sessions()
            p.sessions(uid)
            p.internal.run(history.sample(p.internal.context, p.clock.ms))
            p.blocks()


@on("valkey-sync", soak=("redis7-async", "cluster-sync"))
def test_a_long_random_run_leaves_only_documented_keys(bed: Bed, raw: Any, tmp_path: Path) -> None:
    p = bed.connect(place_file=str(write_place_file(tmp_path / "places.mmdb")), **SETTINGS)
    p.freeze()
    _random_run(p, size(500, 1500))
    families = bed.families()
    assert families.keys() <= DOCUMENTED
    assert {
        "layout",
        "sessions",
        "deadlines",
        "users",
        "user:",
        "session:",
        "ended",
        "events",
        "totals",
    } <= families.keys()
    tag = re.compile(rb"^\{" + re.escape(bed.namespace.encode()) + rb"(:\d+:\d+)?\}:")
    assert all(tag.match(key) for keys in families.values() for key in keys)
    # Every key of a session, text or device expires, so nothing accumulates without a sweep.
    for family in ("session:", "note:", "devices:", "signins:", "ended:", "person:", "history:", "job:"):
        assert all(raw.ttl(key) > 0 for key in families.get(family, [])), family
    listed = sum(raw.zcard(key) for key in families["sessions"])
    assert (
        listed
        == sum(raw.zcard(key) for key in families["deadlines"])
        == sum(raw.scard(key) for key in families["user:"])
    )


# -- the layout -------------------------------------------------------------------------------------------------------


@every_backend
def test_the_first_client_writes_the_layout_and_others_adopt_it(bed: Bed, raw: Any) -> None:
    first = bed.connect()
    login = first.login("ada")
    [layout] = bed.families()["layout"]
    shards = 64 if bed.is_cluster else 1
    assert layout == f"{{{bed.namespace}}}:layout".encode()
    stored = raw.hgetall(layout)
    assert int(stored.pop(b"born")) > 1e12
    assert stored == {b"schema": b"1", b"shards": b"%d" % shards, b"indexes": b"uid.5,name.5,alias.5,ip.2,idp.1"}
    for other in (bed.connect(), bed.connect(shards=shards)):
        assert other.validate(login.token)
    with pytest.raises(InvalidArgument, match=rf"^shards must be {shards}, .* and presence reshard changes it"):
        bed.connect(shards=3).validate(login.token)


@every_topology
def test_a_layout_of_another_schema_is_refused(bed: Bed, raw: Any) -> None:
    bed.connect().counts()
    [layout] = bed.families()["layout"]
    raw.hset(layout, "schema", 2)
    with pytest.raises(CorruptData, match=r"schema 2; this version reads 1: upgrade"):
        bed.connect().counts()


def test_users_are_spread_over_the_shards_and_each_stays_on_one(bed: Bed) -> None:
    p = bed.connect(shards=8)
    p.login_many({"uid": f"u{number}", "name": "N"} for number in range(400))
    for number in range(50):
        p.kick(f"u{number}", by="staff", reason="test")
    families = bed.families()
    assert len(families["sessions"]) == 8
    homes: dict[bytes, set[bytes]] = {}
    for family in ("user:", "session:"):
        for key in families[family]:
            tag, _, rest = key.partition(b"}:")
            homes.setdefault(rest.split(b":")[1], set()).add(tag)
    assert len(homes) == 400
    assert all(len(tags) == 1 for tags in homes.values())


@every_topology
def test_two_namespaces_are_independent(bed: Bed) -> None:
    first, second = bed.connect(namespace=f"{bed.namespace}-a"), bed.connect(namespace=f"{bed.namespace}-b")
    login = first.login("ada")
    assert not second.validate(login.token)
    assert second.counts().sessions == 0
    assert second.list_sessions().items == []
    assert not second.kick("ada", by="staff", reason="test")
    second.sweep()
    second.repair()
    assert first.validate(login.token)


@on("cluster-sync")
def test_on_a_cluster_every_node_has_shards(p: P, raw: Any) -> None:
    p.login_many({"uid": f"u{number}"} for number in range(500))
    nodes = {raw.get_node_from_key(shard.sessions).name for shard in p.context.keys.shards}
    assert len(nodes) == 3
    assert p.counts().sessions == len(list(p.iter_sessions())) == 500


@pytest.mark.parametrize("namespace", ["online", "t", "shop-2", "x" * 32])
def test_shards_are_spread_evenly_over_3_to_16_masters(namespace: str) -> None:
    for shards in (2, 8, 16, 64):
        keys = Keyspace(namespace, shards)
        form = re.compile(rf"\{{{namespace}:{shards}:\d+\}}")
        assert all(form.fullmatch(shard.tag) for shard in keys.shards)
        slots = [key_slot(shard.tag[1:-1].encode()) for shard in keys.shards]
        assert len(set(slots)) == shards
        for masters in range(3, 17):
            ends = [16_384 * place // masters for place in range(masters + 1)]
            counts = [sum(a <= slot < b for slot in slots) for a, b in pairwise(ends)]
            assert max(counts) - min(counts) <= 1, (shards, masters, counts)
    assert Keyspace(namespace, 1).shards[0].tag == f"{{{namespace}:1:0}}"
