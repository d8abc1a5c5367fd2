"""Blocks: every login of a blocked user is refused until the block expires or is removed."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from presence_core import Block, CorruptData, InvalidArgument, LoginRefused, SessionFilter
from tests.conftest import Bed, every_backend, every_topology, on
from tests.support.facade import P

BY: dict[str, Any] = {"by": "Grace Hopper", "reason": "chargeback, see mail of Monday"}
HOSTILE = ["a:b", "{x}", "*", "blocks", "ü😀", "a b", "block:ada", "\\n", "'; DROP"]


def _refused(p: P, uid: str) -> LoginRefused:
    with pytest.raises(LoginRefused) as refused:
        p.login(uid)
    return refused.value


@every_backend
def test_a_blocked_user_cannot_log_in(p: P) -> None:
    now = p.freeze()
    block = p.block("ada", **BY, message="Please call us.", ticket="T-1")
    assert block == Block(
        uid="ada", by=BY["by"], reason=BY["reason"], message="Please call us.", ticket="T-1", at=p.clock.now, until=None
    )
    assert p.blocked("ada") == block
    assert round(block.at.timestamp() * 1000) == now
    refused = _refused(p, "ada")
    assert refused.code == "blocked"
    assert "Please call us." in refused.sentence
    assert not any(secret in refused.sentence for secret in (*BY.values(), "T-1"))
    assert p.sessions("ada") == []
    assert p.login("bob").session.uid == "bob", "no one else is blocked"
    assert p.blocked("bob") is None


def test_a_live_session_continues_after_a_block(p: P) -> None:
    login = p.login("ada")
    p.block("ada", **BY)
    assert p.validate(login.token)
    assert p.heartbeat("ada", login.session.session_id)


@every_topology
def test_an_unblocked_user_can_log_in_again(p: P) -> None:
    p.block("ada", **BY)
    assert p.unblock("ada", by="Ada L.", reason="paid")
    assert p.blocked("ada") is None
    assert p.blocks().items == []
    assert p.login("ada").token
    assert not p.unblock("ada", by="Ada L.", reason="again")
    assert [(entry.action, entry.outcome) for entry in p.audit(uid="ada")] == [
        ("unblock", "was not blocked"),
        ("unblock", "unblocked"),
        ("block", "blocked until unblocked"),
    ]


@every_topology
def test_a_block_ends_at_its_time(p: P, bed: Bed) -> None:
    p.freeze()
    block = p.block("ada", **BY, duration=60)
    assert block.until is not None
    assert (block.until - block.at).total_seconds() == 60
    p.advance(59.999)
    assert p.blocked("ada") == block
    assert [block.uid for block in p.blocks()] == ["ada"]
    assert _refused(p, "ada").code == "blocked"
    p.advance(0.001)
    assert p.blocks().items == []
    assert p.blocked("ada") is None
    assert p.login("ada").token
    assert not {"blocks", "block:"} & bed.families().keys(), "a read removes what has ended"
    assert not p.unblock("ada", **BY), "it was over before"


def test_a_read_only_client_does_not_show_an_expired_block_and_does_not_remove_it(bed: Bed) -> None:
    p = bed.connect(heal=False)
    p.freeze()
    for number in range(5):
        p.block(f"u{number}", **BY, duration=10 * number or None)
    p.advance(20)
    assert {block.uid for block in p.blocks()} == {"u0", "u3", "u4"}
    assert p.blocked("u1") is None
    assert len(bed.families()["block:"]) == 5
    assert {block.uid for block in bed.connect().blocks()} == {"u0", "u3", "u4"}
    assert len(bed.families()["block:"]) == 3


def test_an_entry_without_a_block_is_not_shown_and_is_removed(p: P, bed: Bed, raw: Any) -> None:
    for uid in ("ada", "bob", "a:b"):
        p.block(uid, **BY)
    raw.delete(p.context.shard("ada").block("ada"))
    assert {block.uid for block in p.blocks()} == {"bob", "a:b"}
    assert sum(raw.zcard(key) for key in bed.families()["blocks"]) == 2


@every_topology
def test_a_block_expires_by_ttl_shortly_after_its_end(bed: Bed, raw: Any) -> None:
    p, untimed = bed.connect(), bed.connect(record_ttl=False)
    p.block("ada", **BY, duration=100)
    p.block("bob", **BY)
    untimed.block("eve", **BY, duration=100)
    ttl = {uid: raw.ttl(p.context.shard(uid).block(uid)) for uid in ("ada", "bob", "eve")}
    assert 100 <= ttl["ada"] <= 160
    assert (ttl["bob"], ttl["eve"]) == (-1, -1)


def test_hostile_uids_are_blocked_exactly(p: P) -> None:
    p.freeze()
    for uid in HOSTILE:
        p.advance(1)
        p.block(uid, **BY, message=uid)
    page = p.blocks()
    assert [block.uid for block in page] == HOSTILE[::-1]
    for uid in HOSTILE:
        assert _refused(p, uid).code == "blocked"
        block = p.blocked(uid)
        assert block is not None
        assert (block.uid, block.message) == (uid, uid)
    for uid in ("a", "b", "x", "ada", "ns"):
        assert p.login(uid).token
    assert all(p.unblock(uid, **BY) for uid in HOSTILE)
    assert p.blocks().items == []


def test_a_block_has_a_note_for_staff_and_a_message_for_the_visitor(p: P) -> None:
    p.block("ada", **BY, message="line 1\nline 2 <b>😀", ticket="T-1", duration=5)
    block = p.blocked("ada")
    assert block is not None
    assert (block.public.message, block.public.until) == ("line 1\nline 2 <b>😀", block.until)
    assert {name for name in dir(block.public) if not name.startswith("_")} == {"message", "until", "sentence"}
    assert "Grace" not in repr(block.public)


def test_once_a_block_has_returned_every_login_is_refused(p: P, bed: Bed) -> None:
    clients = [bed.connect() for _ in range(5)]
    stop, blocked = threading.Event(), threading.Event()
    late: list[str] = []
    early: list[str] = []

    def log_in(client: P) -> None:
        while not stop.is_set():
            was_blocked = blocked.is_set()  # read before the login is sent
            try:
                client.login("ada")
            except LoginRefused:
                pass
            else:
                (late if was_blocked else early).append("in")

    threads = [threading.Thread(target=log_in, args=(clients[number % 5],)) for number in range(50)]
    for thread in threads:
        thread.start()
    for _ in range(1000):
        if len(early) >= 50:
            break
        stop.wait(0.01)
    p.block("ada", **BY)
    blocked.set()
    stop.wait(0.3)
    stop.set()
    for thread in threads:
        thread.join()
    assert late == []
    assert len(early) >= 50


def test_concurrent_blocks_and_unblocks_leave_one_state(p: P, bed: Bed, raw: Any) -> None:
    def work(client: P, number: int) -> None:
        for step in range(10):
            if (number + step) % 2:
                client.block("ada", by=f"staff {number}", reason="r")
            else:
                client.unblock("ada", by=f"staff {number}", reason="r")

    threads = [threading.Thread(target=work, args=(bed.connect(), number)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    page, block = p.audit(limit=1000), p.blocked("ada")
    assert len(page) == page.total == 60, "one record per change"
    assert (page.items[0].action == "block") == (block is not None)
    assert [block.uid for block in p.blocks()] == (["ada"] if block else [])


# -- pages ------------------------------------------------------------------------------------------------------------


def _uids(p: P, limit: int) -> list[list[str]]:
    pages, cursor = [], None
    while True:
        page = p.blocks(limit=limit, cursor=cursor)
        pages.append([block.uid for block in page])
        cursor = page.next_cursor
        if cursor is None:
            assert page.total_is_exact
            assert page.total == sum(map(len, pages))
            return pages


@pytest.mark.parametrize("limit", [1, 7, 30, 31, 1000])
@on("valkey-async", "cluster-sync", soak=("sync",))
def test_pages_of_blocks_together_are_all_of_them(p: P, limit: int) -> None:
    p.freeze()
    for number in range(30):
        p.block(f"u{number:02}", **BY)
        p.advance(number % 3)
    pages = _uids(p, limit)
    everything = [uid for page in pages for uid in page]
    assert everything == [block.uid for block in p.blocks(limit=1000)]
    assert len(set(everything)) == 30
    assert everything[0] == "u29"
    assert [len(page) for page in pages[:-1]] == [limit] * (len(pages) - 1)
    assert p.blocks(limit=limit).total == 30
    assert p.blocks(limit=limit).as_of == p.clock.now


@every_topology
def test_pages_of_blocks_are_stable_while_others_are_blocked_and_unblocked(p: P) -> None:
    p.freeze()
    for number in range(20):
        p.block(f"u{number:02}", **BY)
        p.advance(1)
    first = p.blocks(limit=5)
    assert [block.uid for block in first] == [f"u{number}" for number in range(19, 14, -1)]
    p.unblock("u15", **BY)
    p.unblock("u14", **BY)
    p.block("new", **BY)
    p.block("u00", **BY)  # blocked again: now before every page
    second = p.blocks(limit=20, cursor=first.next_cursor)
    assert [block.uid for block in second] == [f"u{number:02}" for number in range(13, 0, -1)]
    assert second.next_cursor is None


@on("valkey-async", "cluster-sync", soak=("valkey", "redis7-sync"))
def test_a_cursor_of_another_method_is_refused_in_one_sentence(p: P) -> None:
    for number in range(3):
        p.login(f"u{number}")
        p.kick(f"u{number}", by="staff", reason="test")
        p.block(f"u{number}", **BY)
        p.login(f"v{number}")
        p.start_kick(SessionFilter(uid="none"), expected=0, **BY)
    cursors = {
        "jobs": p.jobs(limit=1).next_cursor,
        "blocks": p.blocks(limit=1).next_cursor,
        "audit": p.audit(limit=1).next_cursor,
        "ended": p.ended(limit=1).next_cursor,
        "list_sessions": p.list_sessions(limit=1).next_cursor,
    }
    for call in ("blocks", "jobs", "audit", "ended"):
        for other, cursor in cursors.items():
            assert cursor is not None
            if other == call:
                assert getattr(p, call)(limit=1, cursor=cursor).items
                continue
            with pytest.raises(
                InvalidArgument, match=rf"^cursor must be the next_cursor of {call}, with the same other arguments\.$"
            ):
                getattr(p, call)(cursor=cursor)
    for asked in ({"by": "staff"}, {"uid": "u1"}, {"since": 1}, {"until": 10**10}):
        for call in ("audit", "ended"):
            with pytest.raises(InvalidArgument, match="with the same other arguments"):
                getattr(p, call)(cursor=cursors[call], **asked)


# -- what is not ours -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["block", "blocks", "audit"])
@on("redis7-async", "cluster-sync", soak=("valkey-sync",))
def test_a_foreign_value_under_a_block_key_is_named_and_nothing_is_half_written(
    p: P, bed: Bed, raw: Any, family: str
) -> None:
    p.block("ada", **BY)
    shard = p.context.shard("ada")
    key = shard.block("ada") if family == "block" else getattr(shard, family)
    raw.delete(key)
    raw.set(key, "foreign")
    before = bed.dump()
    calls: list[Any] = [lambda: p.block("ada", **BY), lambda: p.unblock("ada", **BY)]
    reads: dict[str, Any] = {"block": lambda: p.blocked("ada"), "blocks": p.blocks, "audit": p.audit}
    calls.append(reads[family])
    for call in calls:
        with pytest.raises(CorruptData) as caught:
            call()
        assert key in str(caught.value)
        assert "Another program uses this namespace" in str(caught.value)
    if family == "block":
        assert p.blocks().items == [], "the others can be read next to a spoiled block"
    assert bed.dump() == before


@on("valkey-sync", "redis7-async", soak=("valkey", "redis7"))
def test_damaged_bytes_break_no_read_of_blocks(p: P, raw: Any) -> None:
    p.freeze()
    p.block("ada", **BY)
    shard = p.context.shard("ada")
    for place, member in enumerate((b"\xff\xfe", b"", b"a\nb", b"x" * 5000)):
        raw.zadd(shard.blocks, {member: p.clock.ms + place})
    raw.zadd(shard.blocks, {b"early": 1.5, b"never": "inf", b"minus": -5})
    raw.hset(shard.block("early"), mapping={b"until": b"\xff", b"at": b"\xff", b"by": b"\xff"})
    pages = _uids(p, 1)
    assert sorted(uid for page in pages for uid in page) == ["ada", "early"]
    assert p.blocked("early") is not None, "an end that is no time is no end"
