"""Two blocks of one user: a later one shortens none and loses no ticket, except on request."""

from __future__ import annotations

import pickle
import threading
from datetime import timedelta
from typing import Any

import pytest

from presence_core import Block, InvalidArgument, LoginRefused, PublicBlock
from presence_core.operations.sessions.held_ends import set_again
from tests.conftest import Bed, on
from tests.support.facade import P

FRAUD: dict[str, Any] = {"by": "alice", "reason": "Fraud case", "message": "Please call us.", "ticket": "FR-1"}
SPAM: dict[str, Any] = {"by": "bob", "reason": "Spam", "message": "Please stop.", "ticket": "SP-2"}
SERVERS = ("valkey-sync", "redis7-async", "cluster-sync")


def facts(block: Block | None) -> tuple[Any, ...]:
    assert block is not None
    return block.by, block.reason, block.message, block.tickets, block.until


@on(*SERVERS)
def test_a_kick_with_a_block_of_an_hour_does_not_change_a_permanent_block(p: P) -> None:
    p.freeze()
    p.login("ada")
    first = p.block("ada", **FRAUD)
    p.advance(60)
    result = p.kick("ada", **SPAM, block_for=3600)
    assert result.count == 1
    assert result.block == p.blocked("ada")
    assert facts(result.block) == ("alice", "Fraud case", "Please call us.", ["FR-1", "SP-2"], None)
    assert result.block is not None
    assert result.block.ticket == "FR-1, SP-2"
    assert (result.block.at, result.block.changed) == (first.at, p.clock.now)
    kicked, blocked = p.audit(uid="ada")
    assert (blocked.outcome, blocked.ticket) == ("blocked until unblocked", "FR-1")
    assert (kicked.by, kicked.reason, kicked.ticket) == ("bob", "Spam", "SP-2")
    asked = f"{p.clock.now + timedelta(hours=1):%Y-%m-%d %H:%M:%S} UTC"
    assert kicked.outcome == (
        f"1 session ended, still blocked until unblocked (FR-1, SP-2) by alice, asked for: until {asked}"
    )


@on(*SERVERS)
def test_the_longer_block_stays_with_the_tickets_of_both_in_either_order(p: P) -> None:
    p.freeze()
    for uid, first, then in (("ada", 60, 3600), ("bob", 3600, 60)):
        p.block(uid, **(SPAM if first < then else FRAUD), duration=first)
        again = p.block(uid, **(FRAUD if first < then else SPAM), duration=then)
        assert again == p.blocked(uid)
        assert facts(again)[:3] == ("alice", "Fraud case", "Please call us.")
        assert sorted(again.tickets) == ["FR-1", "SP-2"]
        assert again.until == p.clock.now + timedelta(seconds=3600)
    p.advance(3599)
    assert {block.uid for block in p.blocks()} == {"ada", "bob"}


@on(*SERVERS)
def test_of_two_blocks_with_the_same_end_the_newer_one_stays(p: P) -> None:
    p.freeze()
    p.block("ada", **FRAUD)
    p.advance(1)
    block = p.block("ada", by="bob", reason="Solved otherwise")
    assert facts(block) == ("bob", "Solved otherwise", None, ["FR-1"], None)
    assert block.at == block.changed == p.clock.now
    until = p.clock.now + timedelta(days=1)
    p.block("eve", **FRAUD, until=until)
    p.advance(1)
    assert facts(p.block("eve", **SPAM, until=until)) == ("bob", "Spam", "Please stop.", ["FR-1", "SP-2"], until)


@on(*SERVERS)
def test_shorten_makes_a_block_shorter_and_keeps_its_tickets(p: P) -> None:
    p.freeze()
    p.block("ada", **FRAUD)
    block = p.block("ada", **SPAM, duration=60, shorten=True)
    until = p.clock.now + timedelta(seconds=60)
    assert facts(block) == ("bob", "Spam", "Please stop.", ["FR-1", "SP-2"], until)
    [entry, _] = p.audit(uid="ada")
    end = f"{until:%Y-%m-%d %H:%M:%S} UTC"
    assert entry.outcome == f"block made shorter: until {end} (FR-1, SP-2), before: until unblocked by alice (FR-1)"
    p.advance(60)
    assert p.login("ada").token
    assert facts(p.block("bob", **SPAM, shorten=True)) == ("bob", "Spam", "Please stop.", ["SP-2"], None), "none before"
    assert p.block("bob", **FRAUD, duration=1).until is None


@on(*SERVERS)
def test_an_expired_block_is_not_merged_with(bed: Bed) -> None:
    p = bed.connect(heal=False)
    p.freeze()
    p.block("ada", **FRAUD, duration=60)
    p.advance(60)
    block = p.block("ada", **SPAM, duration=1)
    assert facts(block)[:4] == ("bob", "Spam", "Please stop.", ["SP-2"])
    assert p.audit(uid="ada").items[0].outcome.startswith("blocked until 2")


@on("valkey-sync", "redis7-async")
def test_the_newest_ten_tickets_are_kept_once_each(p: P) -> None:
    for number in (*range(12), 11, 5):
        block = p.block("ada", by="s", reason="r", ticket=f"T-{number}, {number}")
    assert block.tickets == [f"T-{number}, {number}" for number in range(2, 12)]
    assert p.blocked("ada") == block


@on("valkey-sync", "redis7-async")
def test_a_block_written_by_an_older_version_is_merged_with(p: P, raw: Any) -> None:
    now = p.freeze()
    p.counts()
    shard = p.context.shard("ada")
    old = {"by": "alice", "reason": "Fraud case", "message": "", "ticket": "FR-1, FR-9", "at": now, "until": ""}
    raw.hset(shard.block("ada"), mapping=old)
    raw.zadd(shard.blocks, {"ada": now})
    before = p.blocked("ada")
    assert before is not None
    assert (before.tickets, before.changed) == (["FR-1, FR-9"], before.at)
    p.advance(1)
    assert facts(p.block("ada", **SPAM, duration=60))[2:] == (None, ["FR-1, FR-9", "SP-2"], None)
    for until in (b"\xff", b"inf", b"1e300"):
        raw.hset(shard.block("ada"), mapping={"until": until, "at": "nan", "changed": "x"})
        assert p.block("ada", **SPAM, duration=60).until is None


@on("valkey-sync", "cluster-async")
def test_the_end_of_a_block_is_in_the_future_and_given_once(p: P) -> None:
    p.freeze()
    for wrong, sentence in (
        ({"until": p.clock.now}, "until must lie in the future."),
        ({"until": 1.0}, "until must lie in the future."),
        ({"until": "soon"}, "until must be an aware datetime or Unix seconds."),
        ({"until": p.clock.now, "duration": 1}, "until must not be given with duration: give one of them."),
        ({"shorten": 1}, "shorten must be True or False."),
    ):
        with pytest.raises(InvalidArgument) as refused:
            p.block("ada", by="s", reason="r", **wrong)
        assert str(refused.value) == sentence
    assert p.blocked("ada") is None
    assert p.audit().items == []


@on("valkey-sync", "redis7-async")
def test_of_concurrent_blocks_the_longest_stays_with_all_tickets(p: P, bed: Bed) -> None:
    def work(client: P, number: int) -> None:
        client.block("ada", by=f"s{number}", reason="r", ticket=f"T-{number}", duration=1000 * number or None)

    threads = [threading.Thread(target=work, args=(bed.connect(), number)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    block = p.blocked("ada")
    assert block is not None
    assert (block.by, block.until, sorted(block.tickets)) == ("s0", None, [f"T-{number}" for number in range(8)])


# -- what the visitor reads -------------------------------------------------------------------------------------------


@on(*SERVERS)
def test_the_visitor_gets_the_end_of_the_block_at_login_and_validate(p: P, raw: Any) -> None:
    p.freeze()
    login = p.login("ada")
    p.kick("ada", by="alice", reason="Fraud case", message="Please call us")
    ended = p.validate(login.token).ended
    assert ended is not None
    assert (ended.public.block, ended.public.sentence) == (None, "Please call us")
    p.set_now(1_800_000_000_001)
    block = p.block("ada", **FRAUD, duration=3600)
    ended = p.validate(login.token).ended
    assert ended is not None
    assert ended.public.block == block.public == PublicBlock("Please call us.", block.until)
    assert ended.public.sentence == "Please call us. Signing in is blocked until 2027-01-15 09:01 UTC."
    with pytest.raises(LoginRefused) as caught:
        p.login("ada")
    refused = pickle.loads(pickle.dumps(caught.value))
    assert (refused.code, refused.message, refused.until) == ("blocked", "Please call us.", block.until)
    assert str(refused) == "Please call us. Signing in is blocked until 2027-01-15 09:01 UTC."
    p.block("ada", by="alice", reason="Fraud case")
    with pytest.raises(LoginRefused, match=r"^Signing in is blocked until our staff unblock it\.$"):
        p.login("ada")
    p.unblock("ada", by="alice", reason="solved")
    raw.set(p.context.shard("ada").block("ada"), "foreign")
    ended = p.validate(login.token).ended
    assert ended is not None
    assert ended.public.block is None


# -- set again after a failover ---------------------------------------------------------------------------------------


def again(p: P, block: Block) -> None:
    shard = p.context.shard(block.uid)

    def op() -> Any:
        yield [set_again(p.context, shard, block)]

    p.internal.run(op())


@on(*SERVERS)
def test_reapplying_an_existing_block_changes_nothing(p: P, bed: Bed) -> None:
    p.freeze()
    p.block("ada", **FRAUD, duration=3600)
    p.advance(1)
    block = p.block("ada", **SPAM, duration=60)
    before = bed.dump()
    again(p, block)
    assert bed.dump() == before
    assert len(p.audit(uid="ada")) == 2


@on(*SERVERS)
def test_a_lost_block_is_reapplied_as_it_was_and_merged_with_remaining_ones(p: P, raw: Any) -> None:
    p.freeze()
    p.block("ada", **SPAM, duration=60)
    shard = p.context.shard("ada")
    kept = raw.hgetall(shard.block("ada"))
    p.advance(1)
    block = p.block("ada", **FRAUD, duration=3600)
    raw.delete(shard.block("ada"), shard.audit)
    raw.hset(shard.block("ada"), mapping=kept)  # the state of a replica that received only the first
    p.advance(5)
    for _ in range(2):
        again(p, block)
        assert p.blocked("ada") == block
    [entry] = p.audit(uid="ada")
    assert entry.at == block.changed
    assert entry.outcome.startswith("set again, blocked until ")
    raw.delete(shard.block("ada"), shard.blocks, shard.audit)
    again(p, block)
    assert p.blocked("ada") == block
    assert [block.uid for block in p.blocks()] == ["ada"]


@on(*SERVERS)
def test_reapplying_a_block_never_overrides_later_staff_actions(p: P) -> None:
    p.freeze()
    block = p.block("ada", **FRAUD)
    p.advance(1)
    shorter = p.block("ada", **SPAM, duration=60, shorten=True)
    again(p, block)
    assert p.blocked("ada") == shorter
    p.unblock("ada", by="bob", reason="solved")
    again(p, block)
    assert p.blocked("ada") is None
    p.advance(60)
    over = p.block("eve", **SPAM, duration=1)
    p.advance(1)
    again(p, over)
    assert p.blocked("eve") is None


@on(*SERVERS)
def test_reapplying_a_block_never_overrides_later_staff_actions_of_a_slower_clock(p: P) -> None:
    """After a failover: the new master's clock is behind."""
    p.freeze()
    block, other = p.block("ada", **FRAUD), p.block("eve", **FRAUD)
    p.advance(-2)
    p.unblock("ada", by="bob", reason="solved")
    again(p, block)
    assert p.blocked("ada") is None
    shorter = p.block("eve", **SPAM, duration=60, shorten=True)
    again(p, other)
    assert p.blocked("eve") == shorter


# -- of several users -------------------------------------------------------------------------------------------------


@on(*SERVERS)
def test_the_blocks_of_many_users_are_read_at_once(p: P, raw: Any) -> None:
    p.freeze()
    uids = [f"u{number}" for number in range(450)]
    assert p.blocked_among(uids) == p.blocked_among([]) == {}
    for uid in ("u7", "u300", "other"):
        p.block(uid, **FRAUD)
    p.block("u8", **SPAM, duration=1)
    p.advance(1)
    raw.set(p.context.shard("u9").block("u9"), "foreign")
    assert p.blocked_among([*uids, "u7"]) == {uid: p.blocked(uid) for uid in ("u7", "u300")}
    with pytest.raises(InvalidArgument, match=r"^uids must be a list of uids\.$"):
        p.blocked_among("ada")
