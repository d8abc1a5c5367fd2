"""Operations driven by the test, without a driver: it plays the server's replies, and cuts connections."""

from __future__ import annotations

from typing import Any

import pytest

from presence_core import OutcomeUnknown, Settings, Unavailable
from presence_core.operations import layout
from presence_core.operations.context import Context
from presence_core.operations.maintenance import sweep
from presence_core.operations.sessions import authenticate, end, login, settle
from presence_core.scripts.calls import Call
from presence_core.scripts.maintenance import FIND_DUE, SETTLE_SESSIONS
from tests.conftest import BACKENDS, Bed, Servers
from tests.support.facade import EventLoop


def _context() -> Context:
    ids: dict[str, Any] = {"new_id": lambda: "session-9", "new_secret": lambda: bytes(32), "random": int}
    return Context(Settings(), False, **ids, clock=float, server_of=str)


@pytest.mark.parametrize(
    ("info", "accepted"),
    [
        ("redis_version:7.0.0\r\n", True), ("redis_version:8.2.1\r\n", True), ("redis_version:6.2.14\r\n", False),
        ("redis_version:5.0.7\r\n", False), ("redis_version:7.2.4\r\nvalkey_version:9.1.0\r\n", True),
        ("redis_version:7.2.4\r\nvalkey_version:7.2.5\r\n", True), ("valkey_version:7.1.9\r\n", False),
        ("redis_version:10.0.0\r\n", True), ("redis_version:odd\r\n", True), ("", True),
    ],
)  # fmt: skip
def test_a_server_version_below_the_minimum_is_refused(info: str, accepted: bool) -> None:
    ctx = _context()
    op = layout.load(ctx)
    next(op)
    op.send([[b"1", b"1", b"", None]])
    if accepted:
        with pytest.raises(StopIteration):
            op.send([info.encode()])
        assert len(ctx.keys.shards) == 1
    else:
        version = info.strip().rpartition(":")[2]
        with pytest.raises(
            Unavailable, match=rf"is (Redis|Valkey) {version}; presence_core needs Redis 7\.0 or Valkey 7\.2"
        ):
            op.send([info.encode()])


def test_a_server_that_does_not_report_its_version_is_tried() -> None:
    ctx = _context()
    op = layout.load(ctx)
    next(op)
    op.send([[b"1", b"4", b"", None]])
    with pytest.raises(StopIteration):
        op.throw(Unavailable("no permission"))
    assert len(ctx.keys.shards) == 4


def test_a_sweep_of_many_shards_sends_one_script_at_a_time_to_each_server() -> None:
    ctx = _context()
    ctx.adopt(4, b"")
    home = {shard.sessions: f"node {shard.index // 2}" for shard in ctx.keys.shards}  # two nodes of two shards
    ctx.server_of = home.__getitem__
    op = sweep.sweep(ctx, None)
    next(op)
    op.send([[b"1", b"4", b"", None]])
    looks = op.send([b""])
    assert [call.script for call in looks] == [FIND_DUE] * 4
    share = sweep.ROUND // 4
    assert {call.words[-1] for call in looks} == {share}, "more would be read again and again, round after round"
    sent = op.send([[1, [b"ada:%d" % n for n in range(share)]] for _ in looks])
    batches = []
    while sent[0].script is SETTLE_SESSIONS:
        batches.append([home[call.key] for call in sent])
        sent = op.send([[settle.BATCH, 0]] * len(sent))
    assert batches == [["node 0", "node 1"]] * (2 * share // settle.BATCH)


def _replies(raw: Any, calls: list[Call]) -> list[Any]:
    for call in calls:
        if call.script is not None:
            raw.script_load(call.script.text)
    return [raw.execute_command(*call.words) for call in calls]


def test_an_end_is_returned_although_its_second_half_was_cut_off(servers: Servers, loop: EventLoop) -> None:
    bed = Bed(BACKENDS[0], servers, loop)
    p = bed.connect(max_sessions=1)
    first = p.login("ada", session_id="session-1").session
    op = login.login(p.context, {"uid": "ada", "session_id": "session-2"})
    op.send(_replies(bed.raw, next(op)))
    with pytest.raises(StopIteration) as done:
        op.throw(Unavailable("cut off"))
    assert p.validate(done.value.value.token), "the login happened: its token is the only one that there will ever be"
    assert not p.validate_session("ada", first.session_id)

    kick = end.kick(p.context, "ada", None, by="staff", reason="why")
    ids = _replies(bed.raw, next(kick))
    bed.connect().login("ada", session_id="session-3")
    kick.send(_replies(bed.raw, kick.send(ids)))
    with pytest.raises(StopIteration) as done:
        kick.throw(Unavailable("cut off"))
    assert [session.session_id for session in done.value.value.kicked] == ["session-2"], "the other was not read"
    assert p.counts().sessions == 0
    p.sweep()
    assert p.validate_session("ada", "session-3").ended is not None
    bed.close()


def test_many_logins_of_which_some_ran_are_not_a_plain_failure(servers: Servers, loop: EventLoop) -> None:
    bed = Bed(BACKENDS[0], servers, loop)
    p = bed.connect()
    p.counts()
    op = login.login_many(p.context, ({"uid": f"u{number}"} for number in range(600)), False)
    op.send(_replies(bed.raw, next(op)))
    with pytest.raises(OutcomeUnknown, match="The first 500 logins were made") as cut:
        op.throw(Unavailable("It is away.", "host:1"))
    assert cut.value.server == "host:1"
    assert p.counts().sessions == 500
    bed.close()


def test_many_logins_of_which_one_shard_takes_none_are_not_a_plain_failure(servers: Servers, loop: EventLoop) -> None:
    bed = Bed(BACKENDS[0], servers, loop)
    p = bed.connect(shards=4, timeout=0.2)
    p.counts()
    shards = p.context.keys.shards
    for shard in shards[1:]:
        bed.raw.hset(shard.moved, mapping={"state": "frozen", "token": "x"})
    rows = [{"uid": f"u{number}"} for number in range(12)]
    with pytest.raises(OutcomeUnknown, match="A part of the change may be done"):
        p.login_many(rows)
    assert 0 < p.counts().sessions < 12
    bed.raw.hset(shards[0].moved, mapping={"state": "frozen", "token": "x"})
    with pytest.raises(Unavailable) as failure:
        p.login_many(rows)
    assert type(failure.value) is Unavailable
    bed.close()


def test_a_login_that_is_tried_again_in_vain_is_not_a_plain_failure_for_others(
    servers: Servers, loop: EventLoop
) -> None:
    bed = Bed(BACKENDS[0], servers, loop)
    p = bed.connect(max_sessions=1, on_limit="reject")
    p.login("ada")
    op = login.login_many(p.context, [{"uid": "ada"}, {"uid": "bob"}], False)
    begun = _replies(bed.raw, next(op))
    refused = _replies(bed.raw, op.send(begun))
    [read] = op.send(refused)
    assert read.repeatable, "it looks for ended sessions of ada"
    with pytest.raises(OutcomeUnknown):
        op.throw(Unavailable("It is away."))
    assert p.counts().sessions == 2
    bed.close()


def test_a_new_secret_is_returned_although_a_second_read_was_cut_off(servers: Servers, loop: EventLoop) -> None:
    bed = Bed(BACKENDS[0], servers, loop)
    p = bed.connect()
    token = p.login("ada", device="phone").token
    rotate = authenticate.rotate(p.context, token)
    try:
        rotate.send(_replies(bed.raw, next(rotate)))
        rotate.throw(Unavailable("cut off"))
    except StopIteration as done:
        fresh = done.value.token
    assert not p.validate(token)
    assert p.validate(fresh), "the old secret is gone: this is the only one that there will ever be"
    bed.close()
