"""Facets: how many live sessions have each value, by counters that the scripts keep which begin and end sessions."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, Final

from presence_core.errors import InvalidArgument
from presence_core.filters import SessionFilter
from presence_core.keyspace import Shard
from presence_core.models import NO_LABEL, stored_number
from presence_core.operations.context import MAX_KNOWN_LABELS, Context
from presence_core.operations.search.live_counts import read_pages, share_of_all
from presence_core.schema.conditions import AGENT_FIELDS, CLIENT_FIELDS, CONDITIONS, FACETS, PLACE_FIELDS
from presence_core.scripts.calls import CHECKED, Op, call_of, checked_first, command, pairs
from presence_core.scripts.search import COUNT_WAITING_FACETS

KINDS: Final = (("client", b"c", CLIENT_FIELDS), ("agent", b"a", AGENT_FIELDS))

PLACES: Final = (("country", b"k"), ("network", b"n"))
"""Counters by the place of the login: the fields, and how the counters begin."""

MAX_LEARNED: Final = 10_000
"""Label texts that a search reads at once. Where hostile variety has made more, the records are tested instead."""

WAITING_PAGE: Final = 500
"""Sessions whose counters one script adds up: 2 to 3 ms."""

Pairs = list[tuple[bytes, bytes]]


@checked_first
def facets(ctx: Context, field: object) -> Op[dict[str, int]]:
    declared = ctx.settings.facets
    if field not in FACETS and field not in declared:
        names = ", ".join((*FACETS, *declared))
        raise InvalidArgument(
            "field", f"must be one of {names} (an attribute counts where Settings.facets names it)", "not_a_choice"
        )
    counted = str(field)
    yield CHECKED
    shards = yield from _live_counters(ctx)
    letter = next((letter for _, letter, fields in KINDS if counted in fields), b"")
    ids = [(s, [name[1:] for name, _ in known if name[:1] == letter]) for s, known in shards]
    yield from learn_labels(ctx, ids, math.inf)
    total: Counter[str] = Counter()
    for shard, known in shards:
        for value, count in _values(ctx, shard, counted, known):
            total[value] += count
    return {value: count for value, count in sorted(total.items(), key=lambda item: (-item[1], item[0])) if count > 0}


def _live_counters(ctx: Context) -> Op[list[tuple[Shard, Pairs]]]:
    """The counters of every shard, without the sessions that have ended and wait for a sweep."""
    waiting, replies = yield from read_pages(
        ctx,
        lambda s, upto, begin: call_of(COUNT_WAITING_FACETS, (s.deadlines, s.sessions, s.closing, s.meta), ctx.now,
                                       s.record_prefix, WAITING_PAGE, upto, *begin),
        COUNT_WAITING_FACETS.reply,
        *(command(s.facets, "HGETALL", s.facets) for s in ctx.keys.shards),
    )  # fmt: skip
    shards = []
    for (s, pages), reply in zip(waiting.items(), replies, strict=True):
        ended: Counter[bytes] = Counter()
        for page in pages:
            ended.update(dict(page.counted))
        known = pairs(reply)
        if ended:
            share = share_of_all(pages)
            known = [
                (name, b"%d" % (int(raw) - round(ended[name] * share)) if raw.isdigit() else raw) for name, raw in known
            ]
        shards.append((s, known))
    return shards


def _values(ctx: Context, shard: Shard, field: str, known: list[tuple[bytes, bytes]]) -> Iterator[tuple[str, int]]:
    if field in PLACE_FIELDS:
        yield from _places(field, known)
        return
    kind = (b"c", b"C") if field in CLIENT_FIELDS else (b"a", b"A") if field in AGENT_FIELDS else (b"x", b"x")
    for name, raw in known:
        number = stored_number(raw)
        if name[:1] not in kind or number is None:
            continue
        if kind[0] == b"x":
            declared, _, value = name[1:].partition(b"\0")
            if declared == field.encode() and (shown := _shown(value)) is not None:
                yield shown, number
            continue
        text = ctx.cache.labels.get((shard.index, name[1:])) if name[:1] == kind[0] else name[1:]
        if value := _line(text, field):
            yield value.decode("utf-8", "replace"), number


def _places(field: str, known: Pairs) -> Iterator[tuple[str, int]]:
    letter = dict(PLACES)[field]
    for name, raw in known:
        if name[:1] == letter and (number := stored_number(raw)) is not None:
            yield ("AS" if field == "network" else "") + name[1:].decode("utf-8", "replace"), number


def place_counter(field: str, value: str) -> bytes:
    """The counter of a country or a network."""
    return dict(PLACES)[field] + value.removeprefix("AS" if field == "network" else "").encode()


def _shown(value: bytes) -> str | None:
    """A text as it is, anything else as JSON; None for what is not ours."""
    try:
        known = json.loads(value)
    except (ValueError, RecursionError):
        return None
    return known if isinstance(known, str) else value.decode("utf-8", "replace")


@lru_cache(maxsize=16384)
def _lines(text: bytes) -> list[bytes]:
    return text.split(b"\n", 2)


def _line(text: bytes | None, field: str) -> bytes:
    """A field's line in a label's text."""
    fields = CLIENT_FIELDS if field in CLIENT_FIELDS else AGENT_FIELDS
    lines = _lines(text or b"")
    place = fields.index(field)
    return lines[place] if place < len(lines) else b""


LabelCondition = tuple[str, Callable[[str, Any], bool], Any]
"""The field of a label that a filter compares, how, and with which value."""


def asks_facets(session_filter: SessionFilter | None) -> bool:
    """Whether facets know how many sessions meet a condition of the filter."""
    given = session_filter.given if session_filter else ()
    return any(name in PLACE_FIELDS or CONDITIONS[name].label for name in given)


def _label_conditions(session_filter: SessionFilter, fields: Collection[str]) -> list[LabelCondition]:
    rows = [(CONDITIONS[name], getattr(session_filter, name)) for name in session_filter.given]
    return [(row.label, row.fits, value) for row, value in rows if row.label in fields and row.label]


def wanted_ids(session_filter: SessionFilter, counted: Pairs) -> list[bytes]:
    """The label ids in use whose texts a filter needs."""
    letters = [letter for _, letter, fields in KINDS if _label_conditions(session_filter, fields)]
    return [name[1:] for name, _ in counted if name[:1] in letters]


def learn_labels(ctx: Context, wanted: Sequence[tuple[Shard, Sequence[bytes]]], most: float = MAX_LEARNED) -> Op[None]:
    """Read the texts of these label ids into ``ctx.cache.labels``: at most so many new ones, in one round trip."""
    if len(ctx.cache.labels) > MAX_KNOWN_LABELS:  # the oldest go
        for known in list(islice(ctx.cache.labels, MAX_KNOWN_LABELS // 2)):
            ctx.cache.labels.pop(known, None)
    missing = []
    for s, ids in wanted:
        new = [label for label in ids if (s.index, label) not in ctx.cache.labels and label != NO_LABEL]
        if new and most > 0:
            missing.append((s, new if len(new) <= most else new[: int(most)]))
            most -= len(new)
    if not missing:
        return
    replies = yield [command(s.labels, "HMGET", s.labels, *ids, lenient=True) for s, ids in missing]
    for (s, ids), texts in zip(missing, replies, strict=True):
        for label, text in zip(ids, texts or (), strict=False):
            if text:
                ctx.cache.labels[s.index, label] = text


@dataclass(slots=True)
class LabelTest:
    """Which labels of one shard match a filter, and how many sessions have one of them, by the facets."""

    ids: dict[str, bytes]  #: "client", "client_not", "agent" … → ids, four bytes each; only where the filter asks
    counts: dict[str, int]  #: "client", "agent", "country", "network" → live sessions
    sure: bool  #: the texts of all that are in use are known


def label_test(ctx: Context, shard: Shard, session_filter: SessionFilter, counted: Pairs) -> LabelTest:
    """``counted``: the shard's facets. Labels that are unknown here, or new, are left to the records."""
    test = LabelTest({}, {}, True)
    for kind, letter, fields in KINDS:
        if wanted := _label_conditions(session_filter, fields):
            _test_kind(ctx, shard, test, kind, letter, wanted, counted)
    known = dict(counted)
    for field, _ in PLACES:
        if (value := getattr(session_filter, field)) is not None:
            raw = known.get(place_counter(field, value), b"0")
            test.counts[field] = stored_number(raw) or 0
    return test


def _test_kind(
    ctx: Context,
    shard: Shard,
    test: LabelTest,
    kind: str,
    letter: bytes,
    wanted: list[LabelCondition],
    counted: Pairs,
) -> None:
    matching: list[bytes] = []
    others: list[bytes] = []
    number = 0
    for name, raw in counted:
        label, is_id = name[1:], name[:1] == letter and name[1:] != NO_LABEL
        if not is_id and name[:1] != letter.upper():
            continue
        text = ctx.cache.labels.get((shard.index, label)) if is_id else label
        if text is None:
            test.sure = False
            continue
        matches = all(fits(_line(text, field).decode("utf-8", "replace"), value) for field, fits, value in wanted)
        number += (stored_number(raw) or 0) if matches else 0
        if is_id:
            (matching if matches else others).append(label)
    test.ids |= {kind: b"".join(matching), f"{kind}_not": b"".join(others)}
    test.counts[kind] = number
