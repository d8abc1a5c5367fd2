"""The shards' lists as one, without a server: the test drives the operation, and Python lists answer for the shards.

It tests hundreds of distributions in a second, with equal times, empty shards and one that has nearly everything.
tests/contract/search checks the replies of Redis.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from presence_core import Settings
from presence_core.operations.context import Context
from presence_core.operations.search.shard_merge import Merge, Position
from presence_core.scripts.calls import Call
from presence_core.scripts.search import READ_PAGE

Entry = tuple[int, bytes]
"""Login ms, ref."""


class Shards:
    """Lists that answer READ_PAGE as Redis does, and count the requested entries."""

    def __init__(self, entries: list[list[Entry]]) -> None:
        ids: dict[str, Any] = {"new_id": str, "new_secret": bytes, "random": int}
        self.ctx = Context(Settings(), len(entries) > 1, **ids, clock=float, server_of=str)
        self.ctx.adopt(len(entries), b"")
        self.parts = {
            shard.sessions: sorted(part, reverse=True)
            for shard, part in zip(self.ctx.keys.shards, entries, strict=True)
        }
        self.all = sorted((entry for part in entries for entry in part), reverse=True)
        self.rounds = self.sent = 0

    def page(self, limit: int, position: Position | None) -> tuple[list[Entry], int]:
        """One page, newest first, and the total."""
        merge = Merge(self.ctx, limit, position)
        operation = merge.next(limit)
        try:
            calls = next(operation)
            while True:
                self.rounds += 1
                calls = operation.send([self._reply(call) for call in calls])
        except StopIteration as end:
            return [(login, ref) for login, ref, _ in end.value], merge.total

    def pages(self, limit: int) -> Iterator[list[Entry]]:
        position = None
        while True:
            page, total = self.page(limit, position)
            assert total == len(self.all)
            if not page:
                return
            yield page
            position = page[-1][0], page[-1][1].decode()

    def _reply(self, call: Call) -> list[Any]:
        assert call.script is READ_PAGE
        *_, many, login, ref, _ = call.words
        part = self.parts[call.key]
        if login != "":
            behind = int(login), ref if isinstance(ref, bytes) else str(ref).encode()
            part = [entry for entry in part if entry < behind]
        found = part[: int(many)]
        self.sent += len(found)
        flat = [word for login_ms, name in found for word in (name, b"%d" % login_ms)]
        return [1_000_000, len(self.parts[call.key]), flat, 1, []]


def _entries(rng: random.Random, shards: int) -> list[list[Entry]]:
    """Many in the same millisecond, and spread over the shards evenly, by chance, or nearly all on one."""
    spread = rng.choice(("even", "chance", "one"))
    parts: list[list[Entry]] = [[] for _ in range(shards)]
    for number in range(rng.choice((0, 1, 7, 60, 200))):
        shard = {"even": number % shards, "chance": rng.randrange(shards), "one": 0 if rng.random() < 0.95 else -1}
        parts[shard[spread]].append(
            (1_000 + rng.randrange(rng.choice((1, 5, 1_000))), b"u%d:session-%d" % (number, number))
        )
    return parts


@pytest.mark.parametrize("shards", [1, 2, 4, 16, 64])
def test_pages_of_any_size_are_the_global_list_in_order(shards: int) -> None:
    rng = random.Random(shards)
    for _ in range(40):
        lists = Shards(_entries(rng, shards))
        limit = rng.choice((1, 2, 7, 50, 1_000))
        pages = list(lists.pages(limit))
        assert [entry for page in pages for entry in page] == lists.all
        assert all(len(page) == limit for page in pages[:-1]), "only the last page may be short"


def test_a_page_begins_after_a_position_that_no_longer_exists() -> None:
    lists = Shards([[(10, b"a:1"), (8, b"c:1")], [(9, b"b:1")], [], [(9, b"d:1")]])
    assert lists.page(10, (9, "c:gone"))[0] == [(9, b"b:1"), (8, b"c:1")]
    assert lists.page(10, (7, "z:gone"))[0] == []


def test_a_first_page_of_many_even_shards_takes_one_round_and_asks_each_for_its_share() -> None:
    lists = Shards([[(1_000 + 16 * number + shard, b"u:%d" % number) for number in range(500)] for shard in range(16)])
    page, _ = lists.page(50, None)
    assert page == lists.all[:50]
    assert lists.rounds == 1
    assert lists.sent < 16 * 15, "not fifty of each"


def test_a_shard_that_has_all_of_a_page_is_asked_again_until_the_page_is_full() -> None:
    lists = Shards([[(5_000 + number, b"u:%d" % number) for number in range(300)], *([[(1, b"x:1")]] * 15)])
    assert lists.page(100, None)[0] == lists.all[:100]
    assert lists.rounds > 1
