"""Lists by time over all shards, without a server: the test drives the operation, and Python lists answer for Redis."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from presence_core import Settings
from presence_core.operations.context import Context
from presence_core.operations.merged_lists import MAX_AT_ONCE, MergedLists, ZsetPart
from presence_core.scripts.calls import Call
from presence_core.scripts.search import READ_NEWEST

Row = tuple[int, bytes]
"""Time in ms, member."""


class Lists:
    """One list for each shard; it answers READ_NEWEST as Redis does, and records how many entries were requested."""

    def __init__(self, rows: Sequence[Sequence[Row]]) -> None:
        ids: dict[str, Any] = {"new_id": str, "new_secret": bytes, "random": int}
        self.ctx = Context(Settings(), len(rows) > 1, **ids, clock=float, server_of=str)
        self.ctx.adopt(len(rows), b"")
        shards = self.ctx.keys.shards
        self.rows = {shard.ended: sorted(part, reverse=True) for shard, part in zip(shards, rows, strict=True)}
        self.asked: list[int] = []

    def read(
        self, limit: int, behind: list[str] | None, since: int | None, before: int | None
    ) -> tuple[list[Any], int]:
        """The next entries, and the total."""
        parts = [ZsetPart(shard, shard.ended, behind, since, before) for shard in self.ctx.keys.shards]
        newest = MergedLists(self.ctx, parts, limit)
        operation = newest.next(limit)
        try:
            calls = next(operation)
            while True:
                calls = operation.send([self._reply(call) for call in calls])
        except StopIteration as end:
            return end.value, newest.total

    def _reply(self, call: Call) -> list[Any]:
        assert call.script is READ_NEWEST
        *_, size, score, member, since, before, _most, _is_past = call.words
        self.asked.append(int(size))
        low, high = float(since), float(before)
        inside = [row for row in self.rows[call.key] if low <= row[0] < high]
        place = float(score), member if isinstance(member, bytes) else str(member).encode()
        found = [row for row in inside if row < place][: int(size)]
        return [1_000_000, len(inside), [word for at, name in found for word in (name, b"%d" % at)], ""]


@pytest.mark.parametrize("shards", [1, 2, 8, 64])
@pytest.mark.parametrize(("since", "before"), [(None, None), (1_003, None), (None, 1_006), (1_002, 1_008)])
def test_pages_together_are_the_list_between_two_times(shards: int, since: int | None, before: int | None) -> None:
    rng = random.Random(shards)
    for _ in range(25):
        count = rng.choice((0, 1, 9, 150))
        parts: list[list[Row]] = [[] for _ in range(shards)]
        for number in range(count):
            parts[rng.randrange(shards)].append((1_000 + rng.randrange(10), b"u%d:session" % number))
        lists, limit = Lists(parts), rng.choice((1, 3, 40, 1_000))
        wanted = sorted((row for part in parts for row in part), reverse=True)
        wanted = [row for row in wanted if (since or 0) <= row[0] < (before or 9_999)]
        behind, seen = None, []
        while True:
            page, total = lists.read(limit, behind, since, before)
            assert total == len(wanted)
            seen += page
            if len(page) < limit:
                break
            behind = page[-1].position
        assert [(int(entry.score), entry.member) for entry in seen] == wanted


def test_a_member_that_is_not_text_survives_a_cursor() -> None:
    lists = Lists([[(5, b"\xff\xfe"), (4, b"a\x00b"), (3, b"c")]])
    first, _ = lists.read(1, None, None, None)
    second, _ = lists.read(1, first[0].position, None, None)
    assert [entry.member for entry in [*first, *second]] == [b"\xff\xfe", b"a\x00b"]


def test_a_shard_that_has_all_entries_is_asked_for_more_each_time_up_to_a_limit() -> None:
    lists = Lists([[(n, b"m%d" % n) for n in range(6_000)], *([[]] * 7)])
    page, _ = lists.read(4_000, None, None, None)
    assert [int(entry.score) for entry in page] == list(range(5_999, 1_999, -1))
    assert max(lists.asked) == MAX_AT_ONCE + 1
