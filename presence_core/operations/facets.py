"""How many live sessions have which value: counters kept by the scripts that begin and end sessions."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from presence_core.errors import InvalidArgument
from presence_core.filters import AGENT_FIELDS, CLIENT_FIELDS, SessionFilter
from presence_core.keyspace import Shard
from presence_core.models import NO_LABEL
from presence_core.operations.context import MAX_KNOWN_LABELS, Context
from presence_core.scripts import Op, command

FIELDS = (*CLIENT_FIELDS, *AGENT_FIELDS)


def facets(ctx: Context, field: object) -> Op[dict[str, int]]:
    declared = ctx.settings.facets
    if field not in FIELDS and field not in declared:
        names = ", ".join((*FIELDS, *declared))
        raise InvalidArgument("field", f"must be one of {names} (an attribute counts where Settings.facets names it)")
    return _facets(ctx, str(field))


def _facets(ctx: Context, field: str) -> Op[dict[str, int]]:
    replies = yield [command(s.facets, "HGETALL", s.facets) for s in ctx.keys.shards]
    shards = list(zip(ctx.keys.shards, map(pairs, replies), strict=True))
    ids = [(s, [name[1:] for name, _ in known if name[:1] in (b"c", b"a")]) for s, known in shards]
    yield from learn_labels(ctx, [(s, [one for one in some if one != NO_LABEL]) for s, some in ids])
    total: Counter[str] = Counter()
    for shard, known in shards:
        for value, count in _values(ctx, shard, field, known):
            total[value] += count
    return {value: count for value, count in sorted(total.items(), key=lambda item: (-item[1], item[0])) if count > 0}


def pairs(reply: Any) -> list[tuple[bytes, bytes]]:
    """A hash as it arrives: flat by the second protocol, a dict by the third."""
    return list(reply.items()) if isinstance(reply, dict) else list(zip(reply[::2], reply[1::2], strict=True))


def _values(ctx: Context, shard: Shard, field: str, known: list[tuple[bytes, bytes]]) -> Iterator[tuple[str, int]]:
    kind = (b"c", b"C") if field in CLIENT_FIELDS else (b"a", b"A") if field in AGENT_FIELDS else (b"x", b"x")
    for name, raw in known:
        if name[:1] not in kind or not raw.isdigit():
            continue
        if kind[0] == b"x":
            declared, _, value = name[1:].partition(b"\0")
            if declared == field.encode() and (shown := _shown(value)) is not None:
                yield shown, int(raw)
            continue
        text = ctx.labels.get((shard.index, name[1:])) if name[:1] == kind[0] else name[1:]
        if value := _line(text, field):
            yield value.decode("utf-8", "replace"), int(raw)


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


def learn_labels(ctx: Context, wanted: Sequence[tuple[Shard, Sequence[bytes]]]) -> Op[None]:
    """Have the texts of these label ids in ``ctx.labels``; a round trip only for those not met before."""
    if len(ctx.labels) > MAX_KNOWN_LABELS:
        ctx.labels.clear()
    missing = [(s, [one for one in ids if (s.index, one) not in ctx.labels]) for s, ids in wanted]
    missing = [(s, ids) for s, ids in missing if ids]
    if not missing:
        return
    replies = yield [command(s.labels, "HMGET", s.labels, *ids, lenient=True) for s, ids in missing]
    for (s, ids), texts in zip(missing, replies, strict=True):
        for label, text in zip(ids, texts or (), strict=False):
            if text:
                ctx.labels[s.index, label] = text


@dataclass(slots=True)
class LabelTest:
    """Which labels of one shard a filter lets pass, and how many sessions have one, as far as facets know."""

    ids: dict[str, bytes]  #: "client", "client_not", "agent" … → ids, four bytes each; only where the filter asks
    counts: dict[str, int]  #: the same → live sessions


def label_test(ctx: Context, shard: Shard, asked: SessionFilter, known: Sequence[bytes], counts: Any) -> LabelTest:
    """``known``: all label ids of the shard; ``counts``: its facets."""
    test = LabelTest({}, {})
    numbers = {name: int(raw) for name, raw in zip(counts[::2], counts[1::2], strict=True) if raw.isdigit()}
    for kind, letter, fields in (("client", b"c", CLIENT_FIELDS), ("agent", b"a", AGENT_FIELDS)):
        wanted = [(field, getattr(asked, field).encode()) for field in fields if getattr(asked, field) is not None]
        if not wanted:
            continue
        fits: list[bytes] = []
        others: list[bytes] = []
        for one in known:
            text = ctx.labels.get((shard.index, one))
            if text is not None:  # else, as with one that a login brings just now, the record will tell
                (fits if all(_line(text, field) == value for field, value in wanted) else others).append(one)
        test.ids |= {kind: b"".join(fits), f"{kind}_not": b"".join(others)}
        inline = sum(
            number
            for name, number in numbers.items()
            if name[:1] == letter.upper() and all(_line(name[1:], field) == value for field, value in wanted)
        )
        test.counts[kind] = inline + sum(numbers.get(letter + one, 0) for one in fits)
    return test
