"""The indexes when other clients act between two commands of the maintenance, and after a key was lost halfway."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from presence_core import SessionFilter
from presence_core.operations.search import rebuild
from presence_core.operations.sessions import end
from presence_core.scripts.calls import Call, Op
from tests.conftest import Bed, on
from tests.support.facade import P

ON_ONE_SHARD = on("valkey", "redis7-sync")


def relay(calls: list[Call]) -> Generator[list[Call], list[Any], list[Any]]:
    return (yield calls)


def until(p: P, op: Op[Any], script: str) -> list[Call]:
    """Drive an operation up to the commands that carry this script."""
    calls = next(op)
    while not any(call.script is not None and call.script.name == script for call in calls):
        calls = op.send(p.internal.run(relay(calls)))
    return calls


def clean(p: P) -> None:
    cleaning = rebuild.Cleaning(p.context, p.context.keys.shards)
    while cleaning.rounds == 0:
        p.internal.run(cleaning.step())


@ON_ONE_SHARD
def test_a_session_kicked_while_the_index_is_cleaned_is_still_found_by_name(p: P) -> None:
    p.login("ada", name="Ada Lovelace")
    kick = end.kick(p.context, "ada", None, by="staff", reason="spam")
    members: list[Any] = [[] for _ in next(kick)]  # as if the session had begun since
    calls = kick.send(p.internal.run(relay(kick.send(members))))  # ended, but without a tombstone yet
    clean(p)
    p.internal.run(relay(calls))
    assert [person.name for person in p.people("lovelace")] == ["Ada Lovelace"]


@ON_ONE_SHARD
def test_a_user_who_leaves_and_returns_while_the_index_is_cleaned_is_still_found(p: P) -> None:
    p.login("old", name="Ada Lovelace")
    p.kick("old", by="staff", reason="spam")
    p.context.now = str(p.freeze() + 8 * 86_400_000)
    words = p.context.keys.shards[0]
    p.internal.run(relay([Call(words.people, ("ZREM", words.people, "old"), True)]))  # remains only in the index
    p.internal.run(relay([Call(words.person("old"), ("UNLINK", words.person("old")), True)]))
    op = rebuild.clean_words(p.context, words, b"0")
    calls = until(p, op, "search/rebuild/remove_words")
    old = p.login("old")
    p.logout("old", old.session.session_id)
    p.internal.run(relay(calls))
    assert [person.uid for person in p.people("ol")] == ["old"]


@ON_ONE_SHARD
def test_an_address_left_by_a_lost_record_is_removed_although_its_session_logged_in_again(bed: Bed, p: P) -> None:
    for ip in (None, "10.0.0.2"):
        p.login("ada", session_id="own-id-1", ip="10.0.0.1")
        bed.raw.delete(p.context.keys.shards[0].record("ada", "own-id-1"))
        p.login("ada", session_id="own-id-1", ip=ip)
        p.repair()
        assert p.count_sessions(SessionFilter(ip="10.0.0.1")) == 0


@ON_ONE_SHARD
@pytest.mark.parametrize("lost", ["record", "recount", "counted", "meta"])
def test_a_repair_counts_from_the_start_after_an_interrupted_reindex(bed: Bed, p: P, lost: str) -> None:
    for number in range(3):
        p.login(f"u{number}", session_id="own-id-1", device="phone")
    until(p, rebuild.reindex(p.context), "search/rebuild/recount_facets")
    shard = p.context.keys.shards[0]
    op = rebuild.reindex(p.context)
    calls = until(p, op, "search/rebuild/index_sessions")
    p.internal.run(relay(calls))  # all are counted, and the client dies
    bed.raw.delete(shard.record("u1", "own-id-1") if lost == "record" else f"{shard.tag}:{lost}")
    p.login("u2", session_id="own-id-1", device="desktop")
    p.repair()
    assert p.facets("device") == ({"phone": 1, "desktop": 1} if lost == "record" else {"phone": 2, "desktop": 1})
    assert not {"recount", "counted"} & bed.families().keys()


@ON_ONE_SHARD
def test_a_recount_that_lost_its_counters_begins_again(bed: Bed, p: P) -> None:
    p.login("ada", device="phone")
    shard = p.context.keys.shards[0]
    op = rebuild.reindex(p.context)
    calls = until(p, op, "search/rebuild/index_sessions")
    replies = p.internal.run(relay(calls))
    bed.raw.delete(shard.recount)
    while True:
        try:
            replies = p.internal.run(relay(op.send(replies)))
        except StopIteration:
            break
    p.login("bob", device="phone")
    assert not {"recount", "counted"} & bed.families().keys()


@ON_ONE_SHARD
def test_an_earlier_name_of_an_online_person_is_indexed_again(bed: Bed, p: P) -> None:
    login = p.login("ada", name="Ada Lovelace")
    p.logout("ada", login.session.session_id)
    login = p.login("ada")
    bed.raw.delete(p.context.keys.shards[0].words)
    p.repair()
    p.logout("ada", login.session.session_id)
    assert [person.name for person in p.people("lovelace")] == ["Ada Lovelace"]
