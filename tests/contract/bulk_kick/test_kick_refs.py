"""kick_refs: sessions of any users end in one call, and each ref has its outcome."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from presence_core import Ended, InvalidArgument, OutcomeUnknown, Unavailable
from presence_core.operations.bulk_kick import kick_refs
from presence_core.scripts.bulk_kick import KICK_SESSIONS
from tests.conftest import Bed, every_topology, on, one_mode
from tests.contract.bulk_kick.test_jobs import Held, crowd
from tests.support.facade import P
from tests.support.fair_clock import PATIENT
from tests.support.faults.outages import failure
from tests.support.monitor import Monitor
from tests.support.servers import Cluster, missing, redis_binary, valkey_binary, wait_for

BY: dict[str, Any] = {"by": "Grace Hopper", "reason": "shared password", "message": "Call us.", "ticket": "T-4711"}


@every_topology
def test_refs_end_and_each_that_had_ended_or_is_unknown_is_named(p: P) -> None:
    p.freeze()
    tokens = {uid: p.login(uid, session_id=f"session-{uid}", device="phone").token for uid in "abcdefgh"}
    stays = p.login("a", session_id="session-0")
    p.logout("b", "session-b")
    p.kick("c", "session-c", by="Sam", reason="first")
    sessions = {session.uid: session for session in p.list_sessions() if session.session_id != "session-0"}
    refs = [
        "h:session-h",
        "nobody:session-x",
        "b:session-b",
        "a:session-a",
        "a:session-x",
        "c:session-c",
        "h:session-h",
    ]
    result = p.kick_refs(iter(refs), **BY)
    assert result.kicked == [sessions["h"], sessions["a"]], "in the order of the refs, each once"
    assert [(ended.ref, ended.reason, ended.by) for ended in result.already_ended] == [
        ("b:session-b", "logout", "b"), ("c:session-c", "kicked", "Sam"),
    ]  # fmt: skip
    assert result.not_found == ["nobody:session-x", "a:session-x"]
    assert (result.count, dict(result.failed), result.job, result.block) == (2, {}, None, None)
    assert [uid for uid, token in tokens.items() if p.validate(token)] == list("defg")
    assert p.validate(stays.token)
    ended = p.validate(tokens["h"]).ended
    assert ended is not None
    assert (ended.reason, ended.by, ended.note, ended.ticket) == ("kicked", BY["by"], BY["reason"], BY["ticket"])
    assert ended.public.message == "Call us."
    assert p.counts().totals["kicked"] == 3


@every_topology
def test_each_session_that_was_ended_has_an_audit_entry_and_the_others_have_none(p: P) -> None:
    refs = crowd(p, 3)
    p.kick_refs([*refs, "nobody:session-x"], **BY)
    p.kick_refs(refs, **BY)
    entries = p.audit(by=BY["by"]).items
    assert sorted((entry.uid, entry.session_id, entry.action) for entry in entries) == sorted(
        (*ref.split(":"), "kick") for ref in refs
    )
    assert {(entry.reason, entry.message, entry.ticket, entry.outcome) for entry in entries} == {
        (BY["reason"], BY["message"], BY["ticket"], "1 session ended")
    }


@on("valkey-sync", "cluster-async")
def test_a_thousand_refs_end_in_a_few_round_trips_and_leave_nothing_half_done(bed: Bed) -> None:
    p = bed.connect(shards=64 if bed.is_cluster else 4)
    refs = crowd(p, 1000)
    result = p.kick_refs(refs, **BY)
    assert [session.ref for session in result.kicked] == refs
    assert (p.counts().sessions, p.counts().totals["kicked"]) == (0, 1000)
    assert not {"closing", "sessions", "deadlines"} & bed.families().keys()
    again = p.kick_refs(refs, **BY)
    assert [ended.ref for ended in again.already_ended] == refs
    assert not again


@on("valkey-sync", "redis7-sync")
def test_fifty_refs_of_as_many_users_take_two_round_trips(bed: Bed) -> None:
    p = bed.connect(shards=1)
    refs = crowd(p, 50)
    p.list_sessions()
    with Monitor(bed.raw) as monitor:
        assert p.kick_refs(refs, **BY).count == 50
    sent = Counter(line.words[0] for line in monitor.lines if not line.by_script)
    assert sent == {b"EVALSHA_RO": 50, b"EVALSHA": 1}


def test_refs_are_at_most_a_thousand_and_nothing_ends_where_one_is_malformed(p: P) -> None:
    [ref] = crowd(p, 1)
    wrong: list[tuple[Any, str]] = [
        ((f"u:session-{number}" for number in range(1001)), "refs must be at most 1000 refs"),
        (ref, "refs must be a list of refs"), (None, "refs must be a list of refs"),
        ([ref, "no-colon-here"], "ref must be uid, a colon, session id"), ([ref, 7], "ref must be text"),
    ]  # fmt: skip
    for refs, sentence in wrong:
        with pytest.raises(InvalidArgument, match=f"^{sentence}"):
            p.kick_refs(refs, **BY)
    with pytest.raises(InvalidArgument, match=r"^reason must be"):
        p.kick_refs([ref], by="Sam", reason="")
    assert p.counts().sessions == 1
    nothing = p.kick_refs([], **BY)
    assert (nothing.kicked, nothing.already_ended, nothing.not_found) == ([], [], [])


def test_a_session_past_its_deadline_or_revoked_had_ended_before(p: P) -> None:
    p.freeze()
    old = p.login("ada", session_id="session-1", idle_timeout=10)
    p.advance(10)
    result = p.kick_refs([old.session.ref], **BY)
    assert [(ended.reason, ended.cause) for ended in result.already_ended] == [("expired", "idle")]
    assert p.counts().totals["kicked"] == 0
    p.login("bob", session_id="session-2")
    p.revoke_before(by="Sam", reason="restore")
    [ended] = p.kick_refs(["bob:session-2"], **BY).already_ended
    assert (ended.reason, ended.cause, ended.by) == ("kicked", "revoked", "Sam")


def test_a_session_that_ends_between_the_two_steps_has_ended_before(p: P) -> None:
    refs = crowd(p, 3)
    users = [ref.split(":") for ref in refs]
    operation = kick_refs.kick_refs(p.context, refs, by="s", reason="r", message=None, ticket=None)
    held = Held(p, operation, KICK_SESSIONS)
    p.logout(*users[1])
    assert held.send_script() == [[1, 0, 1]]
    result = _finish(p, operation, held.send())
    assert [session.ref for session in result.kicked] == [], "sent again, as after a lost reply, it ends none twice"
    assert [(ended.ref, ended.reason) for ended in result.already_ended] == [
        (refs[0], "kicked"), (refs[1], "logout"), (refs[2], "kicked"),
    ]  # fmt: skip
    assert len(p.audit(by="s").items) == 2


def test_ends_that_too_few_replicas_have_are_held_also_where_they_were_made_before(bed: Bed) -> None:
    p = bed.connect(confirm_replicas=1, confirm_timeout=10)
    refs = crowd(p, 2)
    assert p.kick_refs(refs[:1], **BY).confirmed is False
    assert p.held() == 1
    bed.connect().kick_refs(refs[1:], **BY)  # as an earlier call, whose reply was lost
    p.kick_refs(refs, **BY)
    assert p.held() == 2


def _finish(p: P, operation: Any, replies: list[Any]) -> Any:
    def rest() -> Any:
        try:
            calls = operation.send(replies)
            while True:
                calls = operation.send((yield calls))
        except StopIteration as stop:
            return stop.value

    return p.internal.run(rest())


def test_damage_to_the_keys_of_one_user_protects_no_other(bed: Bed, raw: Any) -> None:
    p = bed.connect(shards=1)
    refs = crowd(p, 3)
    key = p.context.keys.shard("u1").user("u1")
    raw.delete(key)
    raw.set(key, "another program's")
    result = p.kick_refs(refs, **BY)
    assert [session.ref for session in result.kicked] == [refs[0], refs[2]]
    assert list(result.failed) == [refs[1]]
    assert "holds data that presence_core did not write" in str(result.failed[refs[1]])


@one_mode("sync")
@pytest.mark.cluster
def test_while_a_node_is_away_the_sessions_on_the_others_end_and_the_rest_is_named(
    anywhere: Bed, tmp_path: Path
) -> None:
    any_binary = valkey_binary() or redis_binary() or missing("any Redis server")
    extra = ["--cluster-require-full-coverage", "no", "--cluster-node-timeout", "30000"]
    with Cluster.start(any_binary, tmp_path, masters=3, replicas=0, extra_args=extra) as cluster:
        patient, p = anywhere.connect_to(cluster.url, timeout=PATIENT), anywhere.connect_to(cluster.url, timeout=0.5)
        tokens = {login.session.ref: login.token for login in (patient.login(f"u{number}") for number in range(20))}
        victim = cluster.master_of(patient.context.keys.shard("u0").sessions)
        keys = patient.context.keys
        away = [ref for ref in tokens if cluster.master_of(keys.shard(ref.partition(":")[0]).sessions) is victim]
        assert 0 < len(away) < 20
        wait_for("connections", lambda: all(p.validate(token) for token in tokens.values()))
        p.context.cache.look_at = math.inf

        victim.pause()
        result = p.kick_refs(tokens, **BY)
        assert {session.ref for session in result.kicked} == tokens.keys() - set(away)
        assert list(result.failed) == away
        assert {type(error) for error in result.failed.values()} <= {Unavailable, OutcomeUnknown}
        assert {getattr(error, "server", "") for error in result.failed.values()} == {f"127.0.0.1:{victim.port}"}
        assert isinstance(failure(lambda: p.kick_refs(away, **BY), within=1.5), Unavailable), "none has an outcome"

        victim.resume()
        cluster.wait_ok()
        rest = patient.kick_refs(result.failed, **BY)
        assert {record.ref for record in (*rest.kicked, *rest.already_ended)} == set(away)
        assert not any(patient.validate(token) for token in tokens.values())
        assert all(isinstance(ended, Ended) and ended.by == BY["by"] for ended in rest.already_ended)
