"""What keeps the lists true: healing what a read found dirty, the sweep, and the first look at a server."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from itertools import zip_longest
from typing import Final, TypeVar

from presence_core.errors import CorruptData, InvalidArgument, PresenceError, Unavailable
from presence_core.filters import entries
from presence_core.keyspace import Shard, layout_key, split_ref
from presence_core.models import SweepReport, text
from presence_core.operations.audit import trim_audit
from presence_core.operations.blocks import prune_blocks
from presence_core.operations.context import Context
from presence_core.scripts import DUE, FORGET, STALE, TIDY, Call, Op, command, run
from presence_core.settings import INDEXES, whole

SCHEMA: Final = 1
BATCH: Final = 50
"""Refs in one tidy script: 2 to 3 ms of the server's time, so that nobody waits long behind a sweep."""

FORGET_BATCH: Final = 200

ROUND: Final = 2_000
"""Refs that a sweep reads at once, of all shards together; but a whole batch of each."""

MOST: Final = 100_000_000
"""Sessions that one sweep may be told to do."""

FLOORS: Final = (("valkey_version", "Valkey", (7, 2)), ("redis_version", "Redis", (7, 0)))
"""Where INFO says it, of which server, and the least that is needed. Valkey names a redis_version, too."""

LOOK_EVERY: Final = 5.0
"""Seconds for which a client relies on what it knows of the layout."""

T = TypeVar("T")

Pair = tuple[str, str]
"""uid, session id"""


def tidy_calls(ctx: Context, shard: Shard, pairs: Iterable[Pair], mode: str = "sweep") -> list[Call]:
    """Bring these sessions of one shard into the state that they ought to be in."""
    s, calls = shard, []
    everything = list(dict.fromkeys(pairs))  # each once: a script would end it as often as it is named
    for first in range(0, len(everything), BATCH):
        part = everything[first : first + BATCH]
        places: dict[str, int] = {}
        keys = [*s.lists]
        records: list[str] = []
        refs: list[str | int] = []
        for uid, sid in part:
            place = places.get(uid)
            if place is None:
                place = places[uid] = len(places) + 1
                keys += s.of_user(uid)
            records.append(f"{s.record_prefix}{uid}:{sid}")
            refs += (place, sid)
        if mode == "repair":
            records.append(s.labels)
        calls.append(run(TIDY, keys + records, ctx.now, ctx.policy, mode, len(places), *places, *refs))
    return calls


def heal(ctx: Context, shard: Shard, pairs: list[Pair]) -> Op[None]:
    """Put right what a read found dirty: best effort, and never where writes are not allowed. What is past its deadline
    ends only while a worker vouches for the clock."""
    yield from heal_all(ctx, [(shard, pair) for pair in pairs])


def heal_all(ctx: Context, found: Iterable[tuple[Shard, Pair]]) -> Op[None]:
    """The same of several shards, in one round trip."""
    by_shard: dict[Shard, list[Pair]] = {}
    for shard, pair in found:
        by_shard.setdefault(shard, []).append(pair)
    if by_shard and ctx.settings.heal:
        with contextlib.suppress(Unavailable, CorruptData):
            yield [call for shard, pairs in by_shard.items() for call in tidy_calls(ctx, shard, pairs, "heal")]


def sweep(ctx: Context, limit: int | None) -> Op[SweepReport]:
    if limit is not None:
        whole("limit", limit, 1, MOST)
    return _sweep(ctx, limit)


def _sweep(ctx: Context, limit: int | None) -> Op[SweepReport]:
    # A layout lost with a flush is written again, before another client writes a different one.
    yield from handshake(ctx)
    report = SweepReport(0, 0, False)
    tried: dict[Shard, set[bytes]] = {}
    todo = list(ctx.keys.shards)
    now = b""
    while todo:
        room = MOST if limit is None else limit - report.expired - report.repaired
        if room <= 0:
            left = yield [_due(ctx, s, 1) for s in todo]
            if any(refs for _, refs in left):
                return SweepReport(report.expired, report.repaired, True)
            break
        share = min(room, max(BATCH, ROUND // len(todo)))
        replies = yield [_due(ctx, s, share) for s in todo]
        calls: list[Call] = []
        busy = []
        for shard, (moment, refs) in zip(todo, replies, strict=True):
            now = moment
            if not refs or tried.get(shard, set()).issuperset(refs):
                continue  # nothing, or only what another process is at work on
            # One may be due twice over; and where other shards' left no room, its turn comes in the next round.
            part = list(dict.fromkeys(refs))[: min(share, room)]
            tried[shard] = set(part)
            busy.append(shard)
            calls += tidy_raw(ctx, shard, part)
            room -= len(part)
        report = yield from in_turns(ctx, calls, report)
        todo = busy
    yield from _forget(ctx)
    yield from prune_blocks(ctx)
    yield trim_audit(ctx)
    with contextlib.suppress(Unavailable):  # a full server takes no plain write, but the sweep has made room
        yield [command(s.meta, "HSET", s.meta, "swept", now) for s in ctx.keys.shards]
        # Every script names its shard's fence; while a slot moves, Redis refuses what names a key that is not there.
        yield [command(s.moved, "HSETNX", s.moved, "there", "1") for s in ctx.keys.shards]
    return report


def in_turns(ctx: Context, calls: Iterable[Call], report: SweepReport) -> Op[SweepReport]:
    """One after the other on each server, the servers of a cluster side by side; what they did is added to the report.

    Redis works through what it has read from one client before it turns to the next: with forty in a pipeline everybody
    else waited 10 ms (median of a PING), and two bring a tenth more done for twice the wait at p99.
    """
    queues: dict[str, list[Call]] = {}
    for call in calls:
        queues.setdefault(ctx.server_of(call.key), []).append(call)
    for turn in zip_longest(*queues.values()):
        for reply in (yield [call for call in turn if call]):
            report += report_of(reply)
    return report


def _due(ctx: Context, s: Shard, most: int) -> Call:
    return run(DUE, (s.deadlines, s.closing, s.sessions, s.meta), ctx.now, most)


def report_of(reply: list[int] | int) -> SweepReport:
    expired, repaired = reply if isinstance(reply, list) else (0, reply)
    return SweepReport(expired, repaired, False)


def tidy_raw(ctx: Context, shard: Shard, refs: Iterable[bytes], mode: str = "sweep") -> list[Call]:
    """Tidy refs as they stand in a list. One that we cannot have written is not a session: it only goes."""
    pairs, strays = [], []
    for raw in refs:
        try:
            uid, sid = split_ref(raw.decode())
        except UnicodeDecodeError:
            uid = ""
        if uid:
            pairs.append((uid, sid))
        else:
            strays.append(raw)
    calls = tidy_calls(ctx, shard, pairs, mode)
    if strays:
        calls += [command(key, "ZREM", key, *strays) for key in (shard.sessions, shard.deadlines)]
        calls.append(command(shard.closing, "HDEL", shard.closing, *strays))
    return calls


def _forget(ctx: Context) -> Op[None]:
    """Let go of what is kept only for a while."""
    settings, shards = ctx.settings, ctx.keys.shards
    keeps = (settings.keep_kicked, settings.keep_replaced, settings.keep_expired, settings.keep_logout)
    shortest = min((keep for keep in keeps if keep), default=0)
    cap = -(-settings.max_ended // len(shards))
    todo = list(shards)
    for _ in range(50):
        replies = yield [
            run(STALE, (s.people, s.ended), ctx.now, settings.keep_people, cap, shortest, s.record_prefix,
                FORGET_BATCH, ctx.random())
            for s in todo
        ]  # fmt: skip
        known = yield from _known(todo, [uids for uids, _ in replies])
        calls, again = [], []
        for s, (uids, refs) in zip(todo, replies, strict=True):
            if uids or refs:
                keys: list[str | bytes] = [s.people, s.ended, s.words, s.meta, *(s.person(text(uid)) for uid in uids)]
                keys += [s.record_prefix.encode() + ref for ref in refs]
                words = [word for uid in uids for word in (uid, len(known[s, uid]), *known[s, uid])]
                calls.append(run(FORGET, keys, ctx.now, settings.keep_people, len(uids), *words, *refs))
            if 4 * max(len(uids), len(refs)) >= FORGET_BATCH:
                again.append(s)
        if calls:
            yield calls
        if not again:
            return
        todo = again


def _known(shards: list[Shard], uids: list[list[bytes]]) -> Op[dict[tuple[Shard, bytes], list[bytes]]]:
    """What the index of words holds of these people, as far as it follows from what is kept of them."""
    pairs = [(s, uid) for s, some in zip(shards, uids, strict=True) for uid in some]
    keys = [s.person(text(uid)) for s, uid in pairs]
    rows = (yield [command(key, "HMGET", key, "n", "a", lenient=True) for key in keys]) if keys else []
    return {
        (s, uid): entries(frozenset(INDEXES), text(uid), *(text(part or b"") for part in row or (b"", b"")))
        for (s, uid), row in zip(pairs, rows, strict=True)
    }


# -- the first look at a server ---------------------------------------------------------------------------------------


def handshake(ctx: Context) -> Op[None]:
    """Learn the layout, or write it down when this is the first client; refuse a server or a layout not ours."""
    key = layout_key(ctx.settings.namespace)
    known = None if ctx.keyspace is None or ctx.is_guess else len(ctx.keyspace.shards)
    [(schema, shards, complete, was)] = yield [command(key, "HMGET", key, "schema", "shards", "indexes", "was")]
    try:
        [info] = yield [command(key, "INFO", "server")]
        _check_version(info.decode("utf-8", "replace") if isinstance(info, bytes) else "")
    except _TooOld as error:
        raise Unavailable(str(error)) from None
    except (Unavailable, CorruptData):
        pass  # a user without the right to ask: the scripts will tell
    guess = False
    if schema is not None:
        _check_schema(key, schema)  # also of a layout that was only begun: before anything is written
    if not shards:
        wanted = known or ctx.settings.shards or (64 if ctx.is_cluster else 1)
        try:
            yield _layout_calls(ctx, wanted)
            [(schema, shards, complete, was)] = yield [command(key, "HMGET", key, "schema", "shards", "indexes", "was")]
        except Unavailable as error:
            if error.code not in ("NOPERM", "READONLY"):
                raise
            schema, shards = str(SCHEMA).encode(), str(wanted).encode()  # a reader before the first writer
            complete, guess = b"", True
    _check_schema(key, schema)
    stored_shards = _number(key, shards)
    if stored_shards > 1024:
        raise CorruptData(_never_written(key))
    if known not in (None, stored_shards) and not was:
        raise CorruptData(f"{key} says {stored_shards} shards; this client began with {known}: start it again.")
    former = text(was or b"").split(",")  # what a move has left: settings that still say so are no mistake
    if ctx.settings.shards not in (None, stored_shards) and str(ctx.settings.shards) not in former:
        raise InvalidArgument(
            "shards",
            f"must be {stored_shards}, or not be given (PRESENCE_SHARDS): that is how namespace "
            f"{ctx.settings.namespace} is laid out, and presence migrate changes it",
        )
    ctx.adopt(stored_shards, complete, is_guess=guess)


def _check_schema(key: str, stored: bytes | None) -> None:
    """This version reads data of its own schema and of the one before, so that both serve while a deploy rolls."""
    schema = _number(key, stored)
    known = f"{SCHEMA - 1} and {SCHEMA}" if SCHEMA > 1 else str(SCHEMA)
    if schema > SCHEMA:
        raise CorruptData(f"The data has schema {schema}; this version reads {known}: upgrade presence-core.")
    if schema < SCHEMA - 1:
        raise CorruptData(
            f"The data has schema {schema}; this version reads {known}: move it forward, version by version."
        )


def _number(key: str, stored: bytes | None) -> int:
    """A number of the layout, 1 or more."""
    if not stored or not stored.isdigit() or int(stored) < 1:
        raise CorruptData(_never_written(key))
    return int(stored)


def _never_written(key: str) -> str:
    return f"{key} holds what presence_core never wrote."


def at_home(ctx: Context, op: Op[T]) -> Op[T]:
    """The same operation, once it is known where the sessions are. That is relied on for a while, or until a script
    says that they have been moved."""
    if ctx.keyspace is None or ctx.is_guess:
        yield from handshake(ctx)
        ctx.look_at = ctx.clock() + LOOK_EVERY
    elif ctx.clock() >= ctx.look_at:
        yield from _look_again(ctx)
    keyspace = ctx.keyspace
    try:
        return (yield from op)
    except Unavailable as error:
        if error.code == "LAYOUT":
            ctx.look_at = 0.0
        raise
    except (LookupError, ValueError) as error:
        # Another thread or task has learnt of a move meanwhile: what was asked of one layout does not fit the other.
        if ctx.keyspace is keyspace or isinstance(error, PresenceError):
            raise
        raise Unavailable(
            "The sessions were moved to another number of shards during the call; try again.", "", "LAYOUT"
        ) from error


def _look_again(ctx: Context) -> Op[None]:
    if ctx.look_at:  # unless a script has said that they have been moved: one caller looks, the others go on
        ctx.look_at = ctx.clock() + LOOK_EVERY
    try:
        yield from look(ctx)
    except PresenceError as error:
        # On a cluster the other nodes serve their users meanwhile: what has been moved is behind fences.
        if not (ctx.is_cluster and isinstance(error, Unavailable)):
            ctx.look_at = 0.0
            raise
    ctx.look_at = ctx.clock() + LOOK_EVERY


def look(ctx: Context) -> Op[None]:
    """Whether the sessions have been moved to another number of shards since; if so, go there. Or the schema has been
    moved forward: who was there before does not go on where others no longer understand it."""
    key = layout_key(ctx.settings.namespace)
    [(schema, shards)] = yield [command(key, "HMGET", key, "schema", "shards")]
    if schema is not None:
        _check_schema(key, schema)
    if shards and shards != str(len(ctx.keys.shards)).encode():  # which of the two it is, a move or a restored snapshot
        yield from handshake(ctx)


def _layout_calls(ctx: Context, shards: int) -> list[Call]:
    """Write the layout down, unless it is."""
    key = layout_key(ctx.settings.namespace)
    return [
        command(key, "HSETNX", key, "schema", SCHEMA),
        command(key, "HSETNX", key, "indexes", ",".join(one for one in INDEXES if one in ctx.settings.indexes)),
        command(key, "HSETNX", key, "shards", shards),
    ]


class _TooOld(Exception):
    pass


def _check_version(info: str) -> None:
    about = dict(line.split(":", 1) for line in info.splitlines() if ":" in line)
    for field, name, floor in FLOORS:
        version = about.get(field, "")
        try:
            parts = tuple(int(part) for part in version.split(".")[:2])
        except ValueError:
            continue
        if parts < floor:
            raise _TooOld(f"This server is {name} {version}; presence_core needs Redis 7.0 or Valkey 7.2, or newer.")
        return
