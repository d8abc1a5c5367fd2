"""What began and ended, in order, from wherever a reader left off."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any, Final

from presence_core import settings as check
from presence_core.errors import InvalidArgument
from presence_core.keyspace import split_ref
from presence_core.models import Event, moment
from presence_core.operations.context import Context
from presence_core.scripts import EVENTS, Op, command, run

_RULE: Final = "must be the cursor of an event of this namespace"


def make_cursor(positions: list[str]) -> str:
    """One position per shard; "-" stands for the oldest entry that is kept."""
    return urlsafe_b64encode(",".join(position or "-" for position in positions).encode()).rstrip(b"=").decode()


def _read_cursor(cursor: object) -> list[str] | None:
    if cursor is None:
        return None
    if not isinstance(cursor, str) or not cursor or len(cursor) > 65_536:
        raise InvalidArgument("after", _RULE)
    try:
        text = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode("ascii")
    except ValueError:
        raise InvalidArgument("after", _RULE) from None
    positions = ["" if position == "-" else position for position in text.split(",")]
    for position in filter(None, positions):
        time, dash, order = position.partition("-")
        whole = dash and time.isdecimal() and order.isdecimal() and len(position) < 42
        if not whole or max(int(time), int(order)) >= 1 << 64:
            raise InvalidArgument("after", _RULE)
    if make_cursor(positions) != cursor:
        raise InvalidArgument("after", _RULE)
    return positions


def positions(cursor: object) -> list[tuple[int, int]]:
    """How far a cursor is on each shard: where the streams' ids would be compared. (-1, -1) is before the oldest."""
    found = _read_cursor(cursor)
    if found is None:
        raise InvalidArgument("after", _RULE)
    return [(int(one.partition("-")[0]), int(one.partition("-")[2])) if one else (-1, -1) for one in found]


def cursor_of(places: list[tuple[int, int]]) -> str:
    """The cursor that ``positions`` would read so."""
    return make_cursor([f"{time}-{order}" if time >= 0 else "" for time, order in places])


def events(ctx: Context, after: object, limit: object) -> Op[list[Event]]:
    return _events(ctx, _read_cursor(after), check.whole("limit", limit, 1, 1000))


def latest(ctx: Context) -> Op[str]:
    """The cursor of now: what comes behind it has not happened yet."""
    replies = yield [run(EVENTS, (s.events,), "", 0) for s in ctx.keys.shards]
    return make_cursor([last.decode() for _, last, _ in replies])


def _events(ctx: Context, after: list[str] | None, limit: int) -> Op[list[Event]]:
    shards = ctx.keys.shards
    positions = [""] * len(shards) if after is None else list(after)
    if len(positions) != len(shards):
        [(was, moved_at)] = yield [command(ctx.keys.layout, "HMGET", ctx.keys.layout, "was", "moved_at")]
        if str(len(positions)) not in (was or b"").decode().split(","):
            raise InvalidArgument("after", _RULE)
        # The streams of another number of shards have not come along: what was behind the position is gone.
        return [Event("gap", "", "", moment(int(moved_at or 0)), make_cursor([""] * len(shards)))]
    replies = yield [run(EVENTS, (s.events,), position, limit) for s, position in zip(shards, positions, strict=True)]
    out: list[Event] = []
    entries: list[tuple[int, int, int, str, Any]] = []
    for index, (gap, _, flat) in enumerate(replies):
        if gap:
            positions[index] = ""
            first = flat[0].decode().partition("-")[0] if flat else "0"
            out.append(Event("gap", "", "", moment(int(first)), make_cursor(positions)))
        for raw, fields in zip(flat[::2], flat[1::2], strict=True):
            time, _, order = raw.decode().partition("-")
            entries.append((int(time), int(order), index, raw.decode(), fields))
    entries.sort(key=lambda entry: entry[:3])
    for time, _, index, position, fields in entries[: max(0, limit - len(out))]:
        positions[index] = position
        known = dict(zip(fields[::2], fields[1::2], strict=True))
        uid, session_id = split_ref(known.get(b"r", b"").decode("utf-8", "replace"))
        kind = known.get(b"k", b"unknown").decode("utf-8", "replace")
        at = known.get(b"a", b"")
        out.append(Event(kind, uid, session_id, moment(int(at) if at.isdigit() else time), make_cursor(positions)))
    return out
