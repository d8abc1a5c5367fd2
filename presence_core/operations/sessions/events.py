"""Sessions that began and ended, in order, from where a reader stopped."""

from __future__ import annotations

from typing import Final, cast

from presence_core import validation as check
from presence_core.errors import InvalidArgument
from presence_core.keyspace import split_ref
from presence_core.models import DistantLogin, Event, EventKind, SessionMoved, moment, stored_number, text
from presence_core.models.places import read_move, read_place
from presence_core.models.sessions import previous_login
from presence_core.operations import cursors
from presence_core.operations.context import Context
from presence_core.scripts.calls import CHECKED, Op, call_of, checked_first, command
from presence_core.scripts.sessions import READ_EVENTS, EventsReply, StreamEvent

_RULE: Final = "must be the cursor of an event of this namespace"


def make_cursor(positions: list[str]) -> str:
    """One position per shard; "-" stands for the oldest entry that is kept."""
    return cursors.encode(",".join(position or "-" for position in positions))


def _read_cursor(cursor: object) -> list[str] | None:
    if cursor is None:
        return None
    decoded = cursors.decode(cursor)
    positions = ["" if position == "-" else position for position in (decoded or "").split(",")]
    if not decoded or not all(map(_is_position, positions)) or make_cursor(positions) != cursor:
        raise InvalidArgument("after", _RULE, "malformed")
    return positions


def _is_position(position: str) -> bool:
    """Whether this is the id of a stream's entry, or empty."""
    time, _, order = position.partition("-")
    if not position:
        return True
    is_numbers = len(position) < 42 and position.isascii() and time.isdecimal() and order.isdecimal()
    return is_numbers and max(int(time), int(order)) < 1 << 64


def positions(cursor: object) -> list[tuple[int, int]]:
    """A cursor's position on each shard, as ids of streams are compared; (-1, -1) is before the oldest entry."""
    found = _read_cursor(cursor)
    if found is None:
        raise InvalidArgument("after", _RULE, "malformed")
    parts = [position.partition("-") for position in found]
    return [(int(time), int(order)) if time else (-1, -1) for time, _, order in parts]


def cursor_of(places: list[tuple[int, int]]) -> str:
    return make_cursor([f"{time}-{order}" if time >= 0 else "" for time, order in places])


def time_position(ms: int) -> tuple[int, int]:
    """The position behind all entries of this millisecond, where no entry need be: no entry has the highest number."""
    return ms, (1 << 64) - 1


def latest(ctx: Context) -> Op[str]:
    """The cursor of now: every event behind it happens later."""
    replies = yield [call_of(READ_EVENTS, (s.events,), "", 0) for s in ctx.keys.shards]
    return make_cursor([READ_EVENTS.reply(reply).last_id for reply in replies])


@checked_first
def events(ctx: Context, after: object, limit: object) -> Op[list[Event]]:
    begin, most = _read_cursor(after), check.whole("limit", limit, 1, 1000)
    yield CHECKED
    shards = ctx.keys.shards
    positions = [""] * len(shards) if begin is None else begin
    if len(positions) != len(shards):
        return (yield from _gap_of_reshard(ctx, len(positions)))
    replies = yield [
        call_of(READ_EVENTS, (s.events,), position, most) for s, position in zip(shards, positions, strict=True)
    ]
    merged = merge_events([READ_EVENTS.reply(reply) for reply in replies], positions, most)
    return (yield from _with_places(ctx, merged))


def _with_places(ctx: Context, found: list[Event]) -> Op[list[Event]]:
    """The events, those of distant logins and of moves with their places. One more round trip, only where there are
    such."""
    placed = [event for event in found if event.kind in ("distant", "moved")]
    if not placed:
        return found
    keys = [ctx.shard(event.uid).record(event.uid, event.session_id) for event in placed]
    rows = yield [command(key, "HMGET", key, "o", "g", "w", lenient=True) for key in keys]
    known = {
        event.cursor: _placed(event, *(row or (None, None, None))) for event, row in zip(placed, rows, strict=True)
    }
    return [known.get(event.cursor, event) for event in found]


def _placed(event: Event, odd: bytes | None, place: bytes | None, packed_move: bytes | None) -> Event:
    """The event of a distant login, or of a move, with what its record has."""
    plain = (event.kind, event.uid, event.session_id, event.at, event.cursor)
    if event.kind == "distant":
        return DistantLogin(*plain, read_place(place), *previous_login(odd))
    _, move = read_move(packed_move or b"")
    return SessionMoved(*plain, move if move is not None and move.at == event.at else None)


def _gap_of_reshard(ctx: Context, number: int) -> Op[list[Event]]:
    """The streams of a former layout are gone, with the events behind a cursor of ``number`` shards: a gap."""
    [(was, moved_at)] = yield [command(ctx.keys.layout, "HMGET", ctx.keys.layout, "was", "moved_at")]
    if str(number) not in (was or b"").decode().split(","):
        raise InvalidArgument("after", _RULE, "malformed")
    return [Event("gap", "", "", moment(int(moved_at or 0)), make_cursor([""] * len(ctx.keys.shards)))]


def merge_events(parts: list[EventsReply], positions: list[str], limit: int) -> list[Event]:
    """The parts of all shards in order, gaps first; ``positions``, one per shard, move with the events."""
    out: list[Event] = []
    entries: list[tuple[int, int, int, StreamEvent]] = []
    for index, part in enumerate(parts):
        if part.has_gap:
            positions[index] = ""
            first = part.events[0].entry_id.partition("-")[0] if part.events else "0"
            out.append(Event("gap", "", "", moment(int(first)), make_cursor(positions)))
        for event in part.events:
            written, _, order = event.entry_id.partition("-")
            entries.append((int(written), int(order), index, event))
    entries.sort(key=lambda entry: entry[:3])
    for time, _, index, event in entries[: max(0, limit - len(out))]:
        positions[index] = event.entry_id
        uid, session_id = split_ref(text(event.ref))
        ms = stored_number(event.at)
        at = moment(time if ms is None else ms)
        out.append(Event(cast("EventKind", text(event.kind)), uid, session_id, at, make_cursor(positions)))
    return out
