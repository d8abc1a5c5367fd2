"""Which way to the sessions that a filter asks for is the shortest.

Three kinds of way: a user's own SET; an index, read to its end and put in order (all matches are known, so the total
is exact); the list, walked from the newest until a page is full. The indexes say how many entries a range has, in
O(log N), and facets how many sessions a value; from there it is arithmetic, with costs that were measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from presence_core.filters import AGENT_FIELDS, CLIENT_FIELDS, CUT, SessionFilter, fold
from presence_core.keyspace import Shard
from presence_core.models import Plan
from presence_core.operations.context import Context, pairs
from presence_core.operations.facets import LabelTest, label_test, learn_labels, wanted_ids
from presence_core.operations.merging import Tests
from presence_core.scripts import PLAN, Op, run

WALK_US: Final = 3.5
GATHER_US: Final = {"text": 8.0, "name": 8.0, "ip": 2.0, "contains": 0.6}
"""µs of the server for each entry looked at (benchmarks/README.md)."""

MATCH_US: Final = 8.0
"""The same for each user that an entry names, where entries are read to be looked into."""

MOST_GATHERED: Final = 100_000
"""Entries that one call reads of an index to find users or sessions; a longer range is walked instead."""

Range = tuple[bytes, bytes]
"""Lower and upper end, as ZRANGE BYLEX takes them."""


@dataclass(slots=True)
class Ways:
    """What the planner found out, and decided."""

    plan: Plan
    tests: dict[Shard, Tests]
    now: int  #: ms
    ranges: list[tuple[Shard, str, Range]] | None = None  #: where an index drives: what to read of which shard's
    contains: str = ""  #: what entries of words must have in them
    other: Ways | None = None  #: to be taken when a walk has met too few
    inside: int = 0  #: sessions of the part of the list that a walk would walk
    total: int = 0  #: of matches, the best guess
    total_is_exact: bool = False
    none: bool = False  #: facets are sure that there is none


def word_range(kind: str, needle: str) -> Range:
    raw = kind.encode() + needle.encode()[:CUT]
    return b"[" + raw, b"(" + raw + b"\xff"


def address_range(block: tuple[bytes, bytes]) -> Range:
    return b"[" + block[0], b"(" + block[1] + b"\xff"


def _ranges(ctx: Context, asked: SessionFilter) -> dict[str, tuple[list[Range], list[Range]]]:
    """By index: its ranges of words and of addresses. Only where every index that is needed is whole."""
    ways: dict[str, tuple[list[Range], list[Range]]] = {}
    if asked.text is not None:
        needed = {"uid", "name", "alias"} | ({"ip"} if asked.text_block else set())
        if needed <= ctx.complete:
            words = [word_range(kind, fold(asked.text)) for kind in "una"]
            ways["text"] = words, [address_range(asked.text_block)] if asked.text_block else []
    if asked.name_prefix is not None and "name" in ctx.complete:
        ways["name"] = [word_range("n", fold(asked.name_prefix))], []
    if asked.block and "ip" in ctx.complete:
        ways["ip"] = [], [address_range(asked.block)]
    return ways


def span(asked: SessionFilter) -> tuple[int | str, int]:
    """Login before, and at or after, ms, as scripts take them."""
    return "" if asked.before is None else asked.before, asked.after or 0


def plan(ctx: Context, asked: SessionFilter, need: int | None) -> Op[Ways]:
    """``need``: how many matches are wanted; None for all."""
    ways = _ranges(ctx, asked)
    words = [one for of_words, _ in ways.values() for one in of_words]
    addresses = [one for _, of_addresses in ways.values() for one in of_addresses]
    by_label = any(getattr(asked, name) is not None for name in (*CLIENT_FIELDS, *AGENT_FIELDS))
    before, after = span(asked)
    shards = ctx.keys.shards
    replies = yield [
        run(PLAN, (s.sessions, s.deadlines, s.closing, s.meta, s.words, s.addresses, s.facets), ctx.now,
            after, before, 1 if by_label else 0, len(words), *(end for one in words + addresses for end in one))
        for s in shards
    ]  # fmt: skip
    stored = {reply[7] for reply in replies} - {b"-"}
    if stored:  # a reindex may have changed what there is since this client began
        ctx.know_indexes(stored)
        ways = {name: way for name, way in ways.items() if name in _ranges(ctx, asked)}
    listed, inside = (sum(reply[place] for reply in replies) for place in (1, 3))
    sizes = [sum(column) for column in zip(*(reply[5] for reply in replies), strict=True)]
    labels: list[LabelTest | None] = [None] * len(shards)
    if by_label:
        counted = [pairs(reply[6]) for reply in replies]
        yield from learn_labels(ctx, [(s, wanted_ids(asked, of)) for s, of in zip(shards, counted, strict=True)])
        labels = [label_test(ctx, s, asked, of) for s, of in zip(shards, counted, strict=True)]
    common = _tests(asked)
    tests: dict[Shard, Tests] = {}
    for shard, label in zip(shards, labels, strict=True):
        tests[shard] = [*common, *(word for pair in label.ids.items() for word in pair)] if label else common

    places = {
        name: [("words", words.index(one), one) for one in of_words]
        + [("addresses", len(words) + addresses.index(one), one) for one in of_addresses]
        for name, (of_words, of_addresses) in ways.items()
    }
    rows = {name: sum(sizes[at] for _, at, _ in some) for name, some in places.items()}
    shares = [min(1.0, count / max(1, listed)) for count in rows.values()]
    unheard = False  # nobody has what no label says; nor does a record say it itself, if facets count every session
    for kind in ("client", "agent"):
        asking = [label for label in labels if label and kind in label.counts]
        if asking:
            count = sum(label.counts[kind] for label in asking)
            shares.append(min(1.0, count / max(1, listed)))
            unheard = unheard or (not count and all(label.sure and not label.ids[kind] for label in asking))
    guess = float(inside)
    for share in shares:
        guess *= share
    walked = inside if need is None else min(inside, need * inside / max(guess, 0.5))
    best, cost, looked = ("login" if asked.after or asked.before else "list"), walked * WALK_US, round(walked)
    for name, count in rows.items():
        if count * GATHER_US[name] <= cost and count <= MOST_GATHERED:
            best, cost, looked = name, count * GATHER_US[name], count
    result = _ways(asked, best, looked, guess, tests, replies[0][0])
    result.inside = inside
    if best in ways:
        # Most of many shards have nothing of a name: they are not asked for it.
        result.ranges = [
            (shard, kind, one)
            for shard, reply in zip(shards, replies, strict=True)
            for kind, at, one in places[best]
            if reply[5][at]
        ]
        if best == "ip":  # its entries are the addresses themselves
            result.tests = {shard: [*words][4:] for shard, words in tests.items()}
    elif asked.name_contains is not None and "name" in ctx.complete:
        other = _ways(asked, "contains", listed, guess, tests, result.now)
        other.ranges = [(shard, "words", word_range("n", "")) for shard in shards]
        other.contains = fold(asked.name_contains)
        result.other = other
    result.total = round(guess)
    state = min(reply[4] if reply[4] != 1 else 3 for reply in replies)  # 3: nothing is due anywhere
    only = set(asked.given)
    if only <= {"logged_in_after", "logged_in_before"}:
        result.total, result.total_is_exact = inside, state > 0
    elif by_label and len(only) == 1 and state == 3:
        result.total_is_exact = _trusted(replies)
    result.none = unheard and _trusted(replies)
    return result


def _ways(asked: SessionFilter, best: str, looked: int, guess: float, tests: dict[Shard, Tests], now: int) -> Ways:
    driven = {"text": {"text"}, "name": {"name_prefix"}, "ip": {"ip"}, "login": {"logged_in_after", "logged_in_before"}}
    residual = tuple(name for name in asked.given if name not in driven.get(best, set()))
    return Ways(Plan(best, looked, round(guess), residual), tests, now)


def _trusted(replies: list[Any]) -> bool:
    """Whether facets count every session and no other: not where their key or a record was lost, until a repair."""
    for reply in replies:
        if sum(int(raw) for name, raw in pairs(reply[6]) if name[:1] in (b"c", b"C") and raw.isdigit()) != reply[1]:
            return False
    return True


def _tests(asked: SessionFilter) -> list[str | bytes | int]:
    out: list[str | bytes | int] = []
    if asked.block:
        out += ("from", asked.block[0], "to", asked.block[1])
    if asked.idle_for:
        out += ("idle", asked.idle_for * 1000)
    if asked.name_prefix is not None:
        out += ("prefix", fold(asked.name_prefix))
    if asked.name_contains is not None:
        out += ("contains", fold(asked.name_contains))
    if asked.text is not None:
        out += ("text", fold(asked.text))
        if asked.text_block:
            out += ("text_from", asked.text_block[0], "text_to", asked.text_block[1])
    for place, piece in enumerate(asked.pieces):
        out += (f"attribute:{place}", piece)
    return out
