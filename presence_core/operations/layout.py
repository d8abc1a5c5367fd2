"""The layout of a namespace, its schema and number of shards: load, check, refresh, and run operations with it."""

from __future__ import annotations

import contextlib
import math
from typing import Final, NamedTuple, TypeVar

from presence_core.errors import CorruptData, InvalidArgument, PresenceError, Unavailable, foreign_data
from presence_core.keyspace import Keyspace, layout_key
from presence_core.models import START_A_WORKER, moment, no_worker, stored_number, text
from presence_core.operations.context import Context, stored_names
from presence_core.operations.server_info import ServerInfo
from presence_core.scripts.calls import Op, command

SCHEMA: Final = 1

REFRESH_EVERY: Final = 5.0
"""Seconds for which a client uses the layout that it has read."""

WORKER_EVERY: Final = 60.0
"""Seconds from the start of a client until it first reads whether a worker leads, and between two reads. A worker whose
last beat is older does not lead: it beats at least every ten seconds."""

MAX_SHARDS: Final = 1024

T = TypeVar("T")


class _StoredLayout(NamedTuple):
    """The fields of the layout's hash that every client reads."""

    schema: bytes | None
    shards: bytes | None
    indexes: bytes | None  #: search indexes that are complete, separated by commas
    was: bytes | None  #: numbers of shards before each reshard, separated by commas
    born: bytes | None = None  #: when the layout was written, ms; missing in those of earlier versions
    moved_at: bytes | None = None  #: when the number of shards last changed, ms
    device_keys: bytes | None = None  #: hex, separated by commas; missing before the first login that names its device


def with_layout(ctx: Context, op: Op[T]) -> Op[T]:
    """Load or refresh the layout, then run the operation."""
    if ctx.cache.keyspace is None or ctx.cache.is_guess:
        yield from load(ctx)
        ctx.cache.look_at = ctx.clock() + REFRESH_EVERY
        ctx.cache.worker_at = ctx.cache.worker_at or ctx.clock() + WORKER_EVERY
        ctx.on_layout()
    elif ctx.clock() >= ctx.cache.look_at:
        yield from _refresh_when_due(ctx)
    keyspace = ctx.cache.keyspace
    try:
        return (yield from op)
    except Unavailable as error:
        if error.code == "LAYOUT":  # a script refused: its shard was resharded
            ctx.cache.look_at = 0.0
        raise
    except (LookupError, ValueError) as error:
        # Another thread or task has adopted a new layout during the call, and the replies do not fit it.
        if ctx.cache.keyspace is keyspace or isinstance(error, PresenceError):
            raise
        raise Unavailable("The namespace was resharded during the call; try again.", "", "LAYOUT") from error


def load(ctx: Context) -> Op[None]:
    """Read the layout, check it and adopt it. The first client of a namespace writes it.

    Raises CorruptData for a layout that this version or this client cannot serve, InvalidArgument where
    ``Settings.shards`` differs from it, and Unavailable for a server that is too old. Cost: two round trips.
    """
    key = layout_key(ctx.settings.namespace)
    known = None if ctx.cache.keyspace is None or ctx.cache.is_guess else len(ctx.cache.keyspace.shards)
    stored = yield from _read(key)
    is_node = yield from _check_server(key)
    if stored.schema is not None:
        _check_schema(key, stored.schema)  # before anything is written, also where only the schema is stored
    if is_node and not ctx.is_cluster:
        shards = _positive(key, stored.shards) if stored.shards else known or ctx.settings.shards or 1
        yield from _check_slots(ctx, shards)
    is_guess = False
    has_lost_data = known is not None and (not stored.shards or stored.born != ctx.cache.born)
    if not stored.shards:
        wanted = known or ctx.settings.shards or (64 if ctx.is_cluster else 1)
        try:
            stored = yield from _write(ctx, key, wanted)
        except Unavailable as error:
            if error.code not in ("NOPERM", "READONLY"):
                raise
            # A client that may only read, before the first client that may write.
            stored, is_guess = _StoredLayout(b"%d" % SCHEMA, b"%d" % wanted, b"", None), True
    _check_schema(key, stored.schema)
    if known is not None and not is_guess and (has_lost_data or (stored.shards != b"%d" % known and not stored.was)):
        stored = yield from _note_loss(key, stored, known)
    ctx.adopt(_check_shards(ctx, key, stored), stored.indexes, is_guess=is_guess)
    ctx.cache.born = stored.born
    ctx.know_device_keys(stored.device_keys)
    if ctx.settings.heal and not is_guess and _names_an_earlier_fold(stored.indexes):
        yield from _withdraw_indexes(ctx, key)


def _note_loss(key: str, stored: _StoredLayout, known: int) -> Op[_StoredLayout]:
    """The data that this client has used is gone, and the layout with it: by FLUSHDB, a restart without persistence,
    or a snapshot of another layout. Leave a note for ``health``, and go on with what is stored now, as a new process
    would."""
    [(seconds, _)] = yield [command(key, "TIME")]
    now = str(1000 * int(seconds)).encode()
    fields: list[str | bytes] = ["lost", b"%s %d" % (now, known)]
    if stored.shards != b"%d" % known:
        earlier = [*filter(None, (stored.was or b"").split(b",")), b"%d" % known]
        was = b",".join(dict.fromkeys(earlier))
        stored = stored._replace(was=was, moved_at=now)
        fields += ["was", was, "moved_at", now]
    with contextlib.suppress(Unavailable):  # one that may only read
        yield [command(key, "HSET", key, *fields)]
    return stored


def _names_an_earlier_fold(indexes: bytes | None) -> bool:
    return not {"uid", "name", "alias"}.isdisjoint(text(indexes or b"").split(","))


def _withdraw_indexes(ctx: Context, key: str) -> Op[None]:
    """Mark the indexes of words as incomplete that a version before fold 2 has completed: logins of this version write
    other entries, so processes of that version have to scan, too, until ``reindex`` has finished."""
    places = [key, *(s.meta for s in ctx.keys.shards)]
    with contextlib.suppress(Unavailable):  # one that may only read
        yield [command(place, "HSET", place, "indexes", stored_names(ctx.cache.complete)) for place in places]


def refresh(ctx: Context) -> Op[None]:
    """Read the layout again, and adopt it if the namespace was resharded, or its data is gone. Raises CorruptData if
    its schema was raised to one that this version does not know. Cost: one round trip."""
    key = layout_key(ctx.settings.namespace)
    stored = yield from (_read(key) if ctx.clock() < ctx.cache.worker_at else _read_with_worker(ctx, key))
    if stored.schema is not None:
        _check_schema(key, stored.schema)
    ctx.know_device_keys(stored.device_keys)
    if stored.shards != b"%d" % len(ctx.keys.shards) or stored.born != ctx.cache.born:
        yield from load(ctx)  # which tells a reshard from data that was lost


def _refresh_when_due(ctx: Context) -> Op[None]:
    if ctx.cache.look_at:  # only one caller refreshes, unless a script has refused: then all need the new layout
        ctx.cache.look_at = ctx.clock() + REFRESH_EVERY
    try:
        yield from refresh(ctx)
    except PresenceError as error:
        # On a cluster the other nodes still serve their users: shards that were moved are behind fences.
        if not (ctx.is_cluster and isinstance(error, Unavailable)):
            ctx.cache.look_at = 0.0
            raise
    ctx.cache.look_at = ctx.clock() + REFRESH_EVERY


def is_stored(namespace: str) -> Op[bool]:
    """Whether a namespace has a layout. Writes nothing. Cost: one round trip."""
    try:
        stored = yield from _read(layout_key(namespace))
    except CorruptData:  # a key of another program
        return False
    return stored.schema is not None


def _read(key: str) -> Op[_StoredLayout]:
    [row] = yield [command(key, "HMGET", key, *_StoredLayout._fields)]
    return _StoredLayout(*row)


def _read_with_worker(ctx: Context, key: str) -> Op[_StoredLayout]:
    """Read the layout, and in the same round trip the last beat of a worker; report whether one leads."""
    ctx.cache.worker_at = ctx.clock() + WORKER_EVERY
    place = ctx.keys.common.worker
    calls = [command(key, "HMGET", key, *_StoredLayout._fields), command(place, "HGET", place, "beat", lenient=True)]
    try:
        row, beat, (seconds, _) = yield [*calls, command(key, "TIME")]
    except Unavailable as error:
        if error.code != "NOPERM":
            raise
        ctx.cache.worker_at = math.inf  # the ACL user may not read it
        return (yield from _read(key))
    at = stored_number(beat)
    leads = at is not None and int(seconds) - at / 1000 < WORKER_EVERY
    ctx.on_worker("" if leads else f"{no_worker(None if at is None else moment(at))} {START_A_WORKER}")
    return _StoredLayout(*row)


def _write(ctx: Context, key: str, shards: int) -> Op[_StoredLayout]:
    """Write what is missing of the layout; returns what is stored then, by this client or by another."""
    wanted = stored_names(ctx.settings.indexes)
    [(seconds, micros)] = yield [command(key, "TIME")]
    born = 1000 * int(seconds) + int(micros) // 1000
    fields = (("born", born), ("schema", SCHEMA), ("indexes", wanted), ("shards", shards))
    yield [command(key, "HSETNX", key, name, value) for name, value in fields]
    return (yield from _read(key))


# -- checks -----------------------------------------------------------------------------------------------------------


def _check_server(key: str) -> Op[bool]:
    """Whether the server is a node of a cluster, as far as it says so. Raises Unavailable if it is too old."""
    try:
        [reply] = yield [command(key, "INFO", "server")]
    except (Unavailable, CorruptData):
        return False  # the ACL user may not run INFO: on a server that is too old the scripts will fail
    info = ServerInfo(reply)
    version = info.version
    if version is not None and version.is_too_old:
        raise Unavailable(
            f"This server is {version.kind} {version.number}; presence_core needs Redis 7.0 or Valkey 7.2, or newer."
        )
    return "cluster" in (info.text("redis_mode"), info.text("server_mode"))  # Valkey 8 has the other name


def _check_slots(ctx: Context, shards: int) -> Op[None]:
    """Raise Unavailable unless this node serves every shard. A client of one server may use a cluster of one node."""
    places = [shard.meta for shard in Keyspace(ctx.settings.namespace, min(shards, MAX_SHARDS)).shards]
    yield [command(place, "HMGET", place, "indexes", lenient=True) for place in places]


def _check_schema(key: str, stored: bytes | None) -> None:
    """A version reads its own schema and the one before, so that both versions serve during a rolling deploy."""
    schema = _positive(key, stored)
    supported = f"{SCHEMA - 1} and {SCHEMA}" if SCHEMA > 1 else str(SCHEMA)
    if schema > SCHEMA:
        raise CorruptData(f"The data has schema {schema}; this version reads {supported}: upgrade presence-core.")
    if schema < SCHEMA - 1:
        raise CorruptData(
            f"The data has schema {schema}; this version reads {supported}: upgrade the data version by version."
        )


def _check_shards(ctx: Context, key: str, stored: _StoredLayout) -> int:
    """The stored number of shards."""
    shards = _positive(key, stored.shards)
    if shards > MAX_SHARDS:
        raise foreign_data(key)
    earlier = text(stored.was or b"").split(",")  # settings may still name the number from before it changed
    if ctx.settings.shards not in (None, shards) and str(ctx.settings.shards) not in earlier:
        raise InvalidArgument(
            "shards",
            f"must be {shards}, or not be given (PRESENCE_SHARDS): namespace {ctx.settings.namespace} has this number "
            "of shards, and presence reshard changes it",
        )
    return shards


def _positive(key: str, stored: bytes | None) -> int:
    if not stored or not stored.isdigit() or int(stored) < 1:
        raise foreign_data(key)
    return int(stored)
