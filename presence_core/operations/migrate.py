"""Moving everything to another number of shards, while logins, kicks and all else go on.

Each script on a shard looks at the shard's fence (``T:moved``; scripts.py). The steps, as the layout names them:

1. Before any: the new shards are closed. The old ones are copied while they are in use; each of their scripts notes in
   the fence which keys it is about to change, and what was noted is copied again until little is left. For that little
   the old shards are frozen: reads and validations go on, writes wait. Old and new are compared, and all fences are
   sealed: one that has ended, as a frozen one does ten seconds after its last renewal, cannot be, and nothing has come
   of it. Whoever dies up to here has changed nothing, and the site goes on by itself. For an hour changes are noted,
   and as long the next mover copies only what has not been.
2. ``open``: one write makes the new number the layout's. The old shards are closed for good, then the new ones opened.
3. ``index``: search indexes and facets are made anew (``reindex``), or behind the next step where there is no room.
4. ``remove``: the old keys go.

A client that comes to a shard that is closed reads the layout again.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from presence_core import settings as check
from presence_core.errors import CorruptData, InvalidArgument, PresenceError, Unavailable
from presence_core.keyspace import Keyspace, digest, fence_of
from presence_core.models import Migration, text
from presence_core.operations.context import Context
from presence_core.operations.copying import Copy, lost
from presence_core.operations.reindex import reindex
from presence_core.operations.summing import Rest, check_copy
from presence_core.operations.upkeep import handshake
from presence_core.scripts import CLEAR, FLIP, FREEZE, STEP, Call, Op, ask, command, run

HOLD: Final = 10_000
"""ms after which what a mover holds ends, unless it is renewed."""

BATCH: Final = 500
"""Keys that are copied or removed at once."""

FEW: Final = 500
"""Changes that are copied while everything is frozen: some tenths of a second."""

KEEP_CHANGES: Final = 3_600_000
"""ms for which changes are noted after a mover died: as long another may go on with its copy."""

KEEP_FENCE: Final = 7 * 86_400_000
"""ms for which the fences of shards that are not in use turn away a process that slept in the middle of a call: there
may have been a time when they were."""

_HISTORY: Final = re.compile(r"master_replid:(\w+)")

T = TypeVar("T")

Progress = Callable[[str, int], object] | None
"""Told the step, and how many keys it has come to."""


def migrate(ctx: Context, nodes: Sequence[str], shards: object, progress: Progress = None) -> Op[Migration]:
    """Copy, open and index; unless there was nothing to do, ``remove`` is what is left."""
    token = ctx.new_id()
    return _alone(ctx, token, _steps(ctx, token, nodes, check.whole("shards", shards, 1, 1024), progress))


def remove(ctx: Context, nodes: Sequence[str], progress: Progress = None) -> Op[int]:
    """The last step: the old keys go. Answers how many."""
    return _alone(ctx, ctx.new_id(), _remove(ctx, nodes, progress))


def _alone(ctx: Context, token: str, steps: Op[T]) -> Op[T]:
    """Nobody else moves the sessions meanwhile."""
    yield from handshake(ctx)
    moving = ctx.keys.common.moving
    if (yield [_fence(moving, "take", token)]) != [1]:
        raise Unavailable("Somebody else is moving the sessions to another number of shards.")
    try:
        answer = yield from _holding([_fence(moving, "renew", token)], steps)
    except PresenceError:
        with contextlib.suppress(PresenceError):  # else it ends by itself
            yield [_fence(moving, "release", token)]
        raise
    yield [_fence(moving, "release", token)]
    return answer


def _steps(ctx: Context, token: str, nodes: Sequence[str], shards: int, progress: Progress) -> Op[Migration]:
    key = ctx.keys.layout
    fields = ("step", "from", "shards", "sealed", "begun")
    [(step, source, stored, sealed, begun)] = yield [command(key, "HMGET", key, *fields)]
    before, sessions, keys = int(source or stored), 0, 0
    if step:
        if int(stored) != shards:
            raise InvalidArgument("shards", f"must be {int(stored)} until that move is done")
    elif int(stored) == shards and not begun:
        return Migration(shards, shards)
    else:
        yield [command(key, "HDEL", key, "token")]  # what an earlier mover may still do comes to nothing
        old, new = (Keyspace(ctx.settings.namespace, number) for number in (before, shards))
        if begun and int(begun) != shards:
            yield from _give_up(_Move(nodes, old, Keyspace(ctx.settings.namespace, int(begun)), token, None))
        if int(stored) == shards:
            return Migration(shards, shards)
        yield [command(key, "HSET", key, "begun", shards, "token", token)]
        sessions, keys = yield from _copy(_Move(nodes, old, new, token, progress))
        step, sealed = b"open", token.encode()
    if step == b"open":
        yield from _open(ctx, text(sealed), before, shards)
        step = b"index"
    ctx.adopt(shards, b"")
    if step == b"index":
        try:
            yield from _index(ctx, text(sealed), progress)
        except Unavailable as error:
            if error.code != "OOM":  # else there is room once the old keys have gone
                raise
    return Migration(before, shards, sessions, keys)


def _index(ctx: Context, sealed: str, progress: Progress) -> Op[None]:
    yield from reindex(ctx, lambda done, of: progress("index", done) if progress else None)
    yield from _done(ctx.keys.layout, sealed, "index", "remove")


def _holding(hold: list[Call], op: Op[T]) -> Op[T]:
    """The same operation, each of whose batches renews what is held, and which breaks off where that has ended."""
    try:
        calls = next(op)
        while True:
            many = len(hold)
            try:
                replies = yield [*hold, *calls]
                if not all(replies[:many]):
                    raise lost()
            except PresenceError as error:
                calls = op.throw(error)
            else:
                calls = op.send(replies[many:])
    except StopIteration as stop:
        answer: T = stop.value
        return answer


def _fence(key: str, what: str, token: str, state: str = "frozen", copy: str = "", *, hold: int = HOLD) -> Call:
    return run(FREEZE, (key,), what, token, hold, state, copy)


@dataclass(frozen=True, slots=True)
class _Move:
    """Who copies what."""

    nodes: Sequence[str]
    old: Keyspace
    new: Keyspace
    token: str
    progress: Progress

    def coming(self, what: str) -> list[Call]:
        return [_fence(s.moved, what, self.token, "coming", hold=KEEP_FENCE) for s in self.new.shards]

    def noting(self, what: str, copy: str = "") -> list[Call]:
        return [_fence(s.moved, what, self.token, "copying", copy, hold=KEEP_CHANGES) for s in self.old.shards]

    def frozen(self, what: str) -> list[Call]:
        return [_fence(s.moved, what, self.token, "frozen") for s in self.old.shards]


def _copy(move: _Move) -> Op[tuple[int, int]]:
    """All of it while it is in use, and then, frozen, what has changed since."""
    old, layout = move.old, move.old.layout
    yield from _none_runs(old)
    yield from _all(move.coming("seize"))
    servers = yield from _histories(move.nodes)
    [(begun, seen)] = yield [command(layout, "HMGET", layout, "copy", "servers")]
    goes_on = begun is not None and text(seen or b"") == servers and all((yield move.noting("resume", text(begun))))
    if not goes_on:
        yield from _holding(move.coming("renew"), _unlink(move.nodes, move.new, move.token))
        yield from _all(move.noting("seize", move.token))
        yield [command(layout, "HSET", layout, "copy", move.token, "servers", servers)]
    copy = Copy(old, move.new, move.token)
    rest = Rest(copy)
    try:
        hold = move.coming("renew") + move.noting("renew")
        yield from _holding(hold, _in_use(move, copy, rest, goes_on))
        try:
            yield from _all(move.frozen("turn"))
            hold = move.coming("renew") + move.frozen("renew")
            sessions = yield from _holding(hold, _at_last(move, copy, rest))
            if (yield from _histories(move.nodes)) != servers:
                raise lost()
            yield from _all(move.coming("seal") + move.frozen("seal"))
            if (yield [run(FLIP, (layout,), move.token, len(old.shards), len(move.new.shards))]) != [1]:
                raise lost()
        except PresenceError:
            if (yield from _stays(move)):
                yield move.noting("turn")
            raise
    except (CorruptData, Unavailable) as error:
        of_no_use = isinstance(error, CorruptData) or error.code == "OOM"  # logins wait for the memory that it takes
        if of_no_use and (yield from _stays(move)):
            yield move.noting("release")
            yield from _throw_away(move)
        raise
    return sessions, copy.copied


def _stays(move: _Move) -> Op[bool]:
    """The number of shards has not changed, nor will it by what we said and comes late: there is a way back."""
    layout = move.old.layout
    return (yield [run(FLIP, (layout,), move.token, len(move.old.shards), "")]) == [1]


def _in_use(move: _Move, copy: Copy, rest: Rest, goes_on: bool) -> Op[None]:
    """Copy everything, and what changes, until little changes while what has changed is copied."""

    def tell(step: str) -> None:
        if move.progress:
            move.progress(step, copy.copied)

    yield from rest.begin()
    if goes_on:
        yield from copy.go_on()
    yield from _through(move, lambda keys: copy.keys(keys, missing=goes_on), lambda: tell("copy"))
    yield from copy.lists()
    yield from rest.audit()
    yield from _through(move, copy.check, lambda: tell("check"))
    before = None
    while True:
        changed = yield from copy.changes(lambda: tell("change"))
        if changed <= FEW or (before and changed > before / 2):
            return
        before = changed


def _through(move: _Move, do: Callable[[list[bytes]], Op[None]], tell: Callable[[], None]) -> Op[None]:
    """Every key of the old shards."""
    for node in move.nodes:
        cursor: bytes | None = None
        while cursor != b"0":
            cursor, keys = yield from _scan(node, move.old, cursor)
            yield from do(keys)
            tell()


def _at_last(move: _Move, copy: Copy, rest: Rest) -> Op[int]:
    """What is left, while nothing changes; answers how many sessions there are."""
    if move.progress:
        move.progress("last", copy.copied)
    yield from _none_runs(move.old)
    yield from copy.changes()
    yield from rest.copy()
    return (yield from check_copy(move.old, move.new))


def _give_up(move: _Move) -> Op[None]:
    """What a mover that died had copied to a number that nobody wants any more goes, and its fences with it."""
    yield from _all(move.coming("seize"))
    yield from _all(move.frozen("seize"))  # it may have sealed them
    yield move.frozen("release")
    yield from _throw_away(move)


def _throw_away(move: _Move) -> Op[None]:
    """A copy takes as much memory again, and holds what a `forget` does not reach."""
    yield from _holding(move.coming("renew"), _unlink(move.nodes, move.new, move.token))
    yield [command(move.old.layout, "HDEL", move.old.layout, "begun", "copy", "servers")]
    yield move.coming("close")


def _all(held: list[Call]) -> Op[None]:
    if not all((yield held)):
        raise lost()


def _histories(nodes: Sequence[str]) -> Op[str]:
    """A name for what the masters have written so far, which is another after a failover. On several servers that may
    have lost what was copied, while another knows that it has been; on one it was lost with all behind it."""
    if len(nodes) == 1:
        return ""
    said = yield [ask(node, "INFO", "replication") for node in nodes]
    return digest(",".join(sorted(one for info in said for one in _HISTORY.findall(text(info)))))


def _none_runs(old: Keyspace) -> Op[None]:
    first = old.shards[0]
    if (yield [command(first.running, "SCARD", first.running)]) != [0]:
        raise Unavailable("A bulk kick is running: wait for its end, or pause it, and try again.")


def _open(ctx: Context, sealed: str, before: int, shards: int) -> Op[None]:
    """Close the old ones before the new ones open: no read may find a session there that has been kicked here."""
    old, new = (Keyspace(ctx.settings.namespace, number) for number in (before, shards))
    yield [_fence(s.moved, "close", sealed) for s in old.shards]
    yield [_fence(s.moved, "release", sealed) for s in new.shards]
    yield from _done(old.layout, sealed, "open", "index")


def _done(layout: str, sealed: str, step: str, then: str) -> Op[None]:
    if (yield [run(STEP, (layout,), sealed, step, then)]) != [1]:
        raise lost()


def _remove(ctx: Context, nodes: Sequence[str], progress: Progress) -> Op[int]:
    key = ctx.keys.layout
    [(step, source, sealed)] = yield [command(key, "HMGET", key, "step", "from", "sealed")]
    if step not in (b"index", b"remove"):
        return 0
    old = Keyspace(ctx.settings.namespace, int(source))
    gone = yield from _unlink(nodes, old, text(sealed), progress)
    if step == b"index":
        yield from _index(ctx, text(sealed), progress)
    yield [_fence(s.moved, "renew", text(sealed), hold=KEEP_FENCE) for s in old.shards]
    yield from _done(key, text(sealed), "remove", "")
    return gone


def _scan(node: str, of: Keyspace, cursor: bytes | None) -> Op[tuple[bytes, list[bytes]]]:
    """Some keys of a layout on one server, but for its fences."""
    tags = f"{{{of.namespace}:{len(of.shards)}:*"
    [(cursor, keys)] = yield [ask(node, "SCAN", text(cursor or b"0"), "MATCH", tags, "COUNT", str(BATCH))]
    return cursor or b"0", [key for key in keys if key.partition(b"}")[2] not in (b":moved", b"")]


def _unlink(nodes: Iterable[str], of: Keyspace, token: str, progress: Progress = None) -> Op[int]:
    gone = 0
    for node in nodes:
        cursor: bytes | None = None
        while cursor != b"0":
            cursor, keys = yield from _scan(node, of, cursor)
            by_fence: dict[str, list[bytes]] = {}
            for key in keys:
                by_fence.setdefault(fence_of(key[: key.index(b"}") + 1].decode()), []).append(key)
            calls = [run(CLEAR, (fence, *some), token) for fence, some in by_fence.items()]
            if calls and not all((yield calls)):
                raise lost()
            gone += len(keys)
            if progress:
                progress("remove", gone)
    return gone
