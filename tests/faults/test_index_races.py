"""The indexes while others act between two commands of upkeep, and after a key was lost half-way."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from presence_core import SessionFilter
from presence_core.operations import ending, reindex
from presence_core.scripts import Call, Op
from tests.conftest import Bed, on
from tests.facade import P

ON_ONE_SHARD = on("valkey", "redis7-sync")


def relay(calls: list[Call]) -> Generator[list[Call], list[Any], list[Any]]:
    return (yield calls)


def until(p: P, op: Op[Any], script: str) -> list[Call]:
    """Drive an operation up to the commands that carry this script."""
    calls = next(op)
    while not any(call.script is not None and call.script.name == script for call in calls):
        calls = op.send(p._run(relay(calls)))
    return calls


def clean(p: P) -> None:
    cleaning = reindex.Cleaning(p.context, p.context.keys.shards)
    while cleaning.rounds == 0:
        p._run(cleaning.step())


@ON_ONE_SHARD
def test_whoever_is_kicked_while_the_index_is_cleaned_is_still_found_by_name(p: P) -> None:
    p.login("ada", name="Ada Lovelace")
    kick = ending.kick(p.context, "ada", None, "staff", "spam", None, None, ())
    calls = until(p, kick, "tidy")  # dead, and not yet buried
    clean(p)
    p._run(relay(calls))
    assert [one.name for one in p.people("lovelace")] == ["Ada Lovelace"]


@ON_ONE_SHARD
def test_whoever_comes_and_goes_while_the_index_is_cleaned_is_still_found(p: P) -> None:
    p.login("old", name="Ada Lovelace")
    p.kick("old", by="staff", reason="spam")
    p.context.now = str(p.freeze() + 8 * 86_400_000)
    words = p.context.keys.shards[0]
    p._run(relay([Call(words.people, ("ZREM", words.people, "old"), True)]))  # forgotten, but for the index
    p._run(relay([Call(words.person("old"), ("UNLINK", words.person("old")), True)]))
    op = reindex.clean_words(p.context, words, b"0")
    calls = until(p, op, "unindex")
    one = p.login("old")
    p.logout("old", one.session.session_id)
    p._run(relay(calls))
    assert [person.uid for person in p.people("ol")] == ["old"]


@ON_ONE_SHARD
def test_an_address_that_a_lost_record_left_behind_is_cleaned_although_its_session_began_anew(bed: Bed, p: P) -> None:
    for ip in (None, "10.0.0.2"):
        p.login("ada", session_id="own-id-1", ip="10.0.0.1")
        bed.raw.delete(p.context.keys.shards[0].record("ada", "own-id-1"))
        p.login("ada", session_id="own-id-1", ip=ip)
        p.repair()
        assert p.count_sessions(SessionFilter(ip="10.0.0.1")) == 0


@ON_ONE_SHARD
@pytest.mark.parametrize("lost", ["record", "recount", "counted", "meta"])
def test_a_repair_counts_from_the_start_whatever_was_lost_since_a_reindex_was_interrupted(
    bed: Bed, p: P, lost: str
) -> None:
    for number in range(3):
        p.login(f"u{number}", session_id="own-id-1", device="phone")
    until(p, reindex.reindex(p.context), "recount")
    shard = p.context.keys.shards[0]
    op = reindex.reindex(p.context)
    calls = until(p, op, "index")
    p._run(relay(calls))  # all are counted, and the client dies
    bed.raw.delete(shard.record("u1", "own-id-1") if lost == "record" else f"{shard.tag}:{lost}")
    p.login("u2", session_id="own-id-1", device="desktop")
    p.repair()
    assert p.facets("device") == ({"phone": 1, "desktop": 1} if lost == "record" else {"phone": 2, "desktop": 1})
    assert not {"recount", "counted"} & bed.families().keys()


@ON_ONE_SHARD
def test_a_recount_whose_counters_were_lost_under_way_is_over(bed: Bed, p: P) -> None:
    p.login("ada", device="phone")
    shard = p.context.keys.shards[0]
    op = reindex.reindex(p.context)
    calls = until(p, op, "index")
    replies = p._run(relay(calls))
    bed.raw.delete(shard.recount)
    while True:
        try:
            replies = p._run(relay(op.send(replies)))
        except StopIteration:
            break
    p.login("bob", device="phone")
    assert not {"recount", "counted"} & bed.families().keys()


@ON_ONE_SHARD
def test_the_name_that_an_online_person_left_earlier_is_indexed_anew(bed: Bed, p: P) -> None:
    one = p.login("ada", name="Ada Lovelace")
    p.logout("ada", one.session.session_id)
    one = p.login("ada")
    bed.raw.delete(p.context.keys.shards[0].words)
    p.repair()
    p.logout("ada", one.session.session_id)
    assert [person.name for person in p.people("lovelace")] == ["Ada Lovelace"]
