"""The lists of 64 shards act as one list: the same rows in the same order, for any page size."""

from __future__ import annotations

import math
from typing import Any

import pytest

from presence_core import SessionFilter
from presence_core.operations.search import list_sessions
from presence_core.scripts.calls import Call
from presence_core.scripts.search import READ_INDEX, READ_PAGE
from tests.conftest import Bed, on
from tests.support.facade import P
from tests.support.soak import size

SHARDS = 64


def _rows(now: float) -> list[dict[str, Any]]:
    """First the many sessions of one user, which are all on one shard; then others, several in the same millisecond."""
    seen = {"last_seen": now, "absolute_timeout": 10**6, "device": "phone"}
    crowd = [{"uid": "ada", "session_id": f"session-{n:02}", "login_at": now - n // 3, **seen} for n in range(30)]
    return crowd + [
        {"uid": f"u{n}", "session_id": "session-1", "login_at": now - 10 - n // 4, **seen} for n in range(60)
    ]


def _read(p: P, limit: int, asked: SessionFilter | None = None) -> list[Any]:
    sessions, cursor = [], None
    while True:
        page = p.list_sessions(asked, limit=limit, cursor=cursor)
        sessions += page.items
        cursor = page.next_cursor
        assert (len(page) == limit) or cursor is None
        if cursor is None:
            return sessions


@on("cluster-sync", soak=("cluster",))
def test_pages_of_every_size_are_equal_to_those_of_one_global_list(bed: Bed) -> None:
    p, single = bed.connect(shards=SHARDS), bed.connect(namespace=f"{bed.namespace}-one", shards=1)
    now = p.freeze() / 1000
    rows = _rows(now)
    for presence in (p, single):
        presence.login_many(rows, imported=True)
    expected = _read(single, 1000)
    in_order = sorted(rows, key=lambda row: (row["login_at"], f"{row['uid']}:{row['session_id']}"), reverse=True)
    assert [session.ref for session in expected] == [f"{row['uid']}:{row['session_id']}" for row in in_order]
    for limit in size((1, 2, 7, len(rows) - 1, len(rows), len(rows) + 1), range(1, len(rows) + 2)):
        assert _read(p, limit) == expected, limit
    phones = SessionFilter(device="phone", logged_in_before=now - 5)
    for limit in (1, 7, 50, 1000):
        assert _read(p, limit, phones) == _read(single, 1000, phones), limit


def _answer(raw: Any, calls: list[Call]) -> list[Any]:
    for call in calls:
        if call.script is not None:
            raw.script_load(call.script.text)
    return [raw.execute_command(*call.words) for call in calls]


def _batches(raw: Any, op: Any) -> list[list[Call]]:
    """The calls of an operation, round trip by round trip."""
    asked = []
    try:
        calls = next(op)
        while True:
            asked.append(calls)
            calls = op.send(_answer(raw, calls))
    except StopIteration:
        return asked


@pytest.mark.parametrize("limit", [1, 20, 50, 64, 200, 1000])
@on("valkey-sync")
def test_a_shard_is_asked_for_its_share_and_again_only_if_that_was_not_enough(bed: Bed, limit: int) -> None:
    p = bed.connect(shards=SHARDS)
    rows = _rows(p.freeze() / 1000)
    p.login_many(rows, imported=True)
    first, *behind = _batches(bed.raw, list_sessions.list_sessions(p.context, None, limit, None))
    share = min(limit, math.ceil(limit / SHARDS + 3 * math.sqrt(limit / SHARDS))) + 1
    assert len(first) == SHARDS
    assert {call.words[3 + int(call.words[2]) + 1] for call in first if call.script is READ_PAGE} == {share}
    again = [call for calls in behind for call in calls if call.script is READ_PAGE]
    assert len(again) < SHARDS / 2
    if limit == 20:
        only = p.context.shard("ada").sessions
        assert {call.key for call in again} == {only}, "the newest are ada's: others still had what they had sent"


@pytest.mark.parametrize(("limit", "trips"), [(50, 1), (100, 1), (101, 2)])
@on("valkey-sync")
def test_a_page_of_one_shard_takes_one_round_trip_and_skips_a_record_of_a_foreign_type(
    bed: Bed, limit: int, trips: int
) -> None:
    p = bed.connect(shards=1)
    p.login_many(_rows(p.freeze() / 1000), imported=True)
    p.list_sessions()  # this client knows the texts of the labels from here on
    assert len(_batches(bed.raw, list_sessions.list_sessions(p.context, None, limit, None))) == trips
    expected = p.list_sessions(limit=1000).items
    foreign = p.context.shard("u0").record("u0", "session-1")
    bed.raw.delete(foreign)
    bed.raw.set(foreign, "foreign")
    assert _read(p, limit) == [session for session in expected if session.uid != "u0"]


@on("valkey-sync", "cluster-async")
def test_a_search_asks_only_the_shards_that_have_the_word(bed: Bed) -> None:
    p = bed.connect(shards=SHARDS)
    p.login_many({"uid": f"u{n}", "name": "Ann" if n < 3 else "Ben"} for n in range(100))
    for text, users in (("u77", 1), ("ann", 3), ("nobody", 0)):
        assert len(p.list_sessions(SessionFilter(text=text))) == users
        if not bed.is_cluster:
            trips = _batches(bed.raw, list_sessions.list_sessions(p.context, SessionFilter(text=text), 50, None))
            assert sum(call.script is READ_INDEX for calls in trips for call in calls) == users
