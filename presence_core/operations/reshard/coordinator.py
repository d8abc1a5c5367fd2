"""The reshard: move everything to another number of shards, while logins, kicks and all other calls go on.

Every script on a shard reads the shard's fence first (``fences``). The steps, by their names in the layout:

1. Before the first step the new shards are closed. The old ones are copied while they are in use; each of their scripts
   notes the keys that it is about to change, and these keys are copied again until few are left. For the last ones the
   old shards are frozen: reads and validations go on, writes wait. Old and new shards are compared, and all fences are
   sealed. A frozen fence expires ten seconds after its last renewal; an expired fence cannot be sealed, and then
   nothing has changed. So a coordinator that dies before this point has changed nothing. Changes are noted for another
   hour, in which the next coordinator copies only what was not copied.
2. ``open``: one write makes the new number the layout's. The old shards are closed for good, then the new ones opened.
3. ``index``: search indexes and facets are rebuilt (``reindex``); after the next step where memory is full.
4. ``remove``: the old keys are removed.

A client that calls a closed shard reads the layout again.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple, TypeVar

from presence_core import validation as check
from presence_core.errors import CorruptData, InvalidArgument, Unavailable
from presence_core.keyspace import Keyspace, digest, fence_of
from presence_core.models import ReshardReport, text
from presence_core.operations.context import Context
from presence_core.operations.layout import MAX_SHARDS, load
from presence_core.operations.reshard.copier import Copier
from presence_core.operations.reshard.fences import KEEP_FENCE, Fences, claim_all, fence_call, lost, renewing
from presence_core.operations.reshard.final_copy import FinalCopy, check_copy
from presence_core.operations.scan import read_ahead
from presence_core.operations.search.rebuild import reindex
from presence_core.scripts.calls import Call, Op, ask, call_of, command
from presence_core.scripts.reshard import CLAIM_FENCE, COMMIT_LAYOUT, FINISH_STEP, REMOVE_KEYS

BATCH: Final = 500
"""Keys that are copied or removed at once."""

FEW: Final = 500
"""Changes that may be left when the shards are frozen: copying them takes some tenths of a second."""

_REPLICATION_ID: Final = re.compile(r"master_replid:(\w+)")

T = TypeVar("T")

Progress = Callable[[str, int], object] | None
"""Called with the step and the number of keys that it has reached."""


class _State(NamedTuple):
    """The layout's fields of a reshard."""

    step: bytes | None  #: open, index or remove; None: the layout has not been switched
    source: int  #: the number of shards before
    shards: int  #: the number of shards now
    sealed: str  #: the token of the coordinator whose copy is in use
    begun: int  #: the number of shards that a copy which has not ended leads to; 0: there is none


@dataclass(frozen=True, slots=True)
class _Reshard:
    """What one coordinator copies, and from which servers."""

    nodes: Sequence[str]
    fences: Fences
    progress: Progress
    clock: Callable[[], float]

    @property
    def old(self) -> Keyspace:
        return self.fences.old

    @property
    def new(self) -> Keyspace:
        return self.fences.new

    def report(self, step: str, number: int) -> None:
        if self.progress:
            self.progress(step, number)


def reshard(ctx: Context, nodes: Sequence[str], shards: object, progress: Progress = None) -> Op[ReshardReport]:
    """All steps but ``remove``, or those that an interrupted reshard has left."""
    token = ctx.new_id()
    number = check.whole("shards", shards, 1, MAX_SHARDS)
    return _alone(ctx, token, _steps(ctx, token, nodes, number, progress))


def remove(ctx: Context, nodes: Sequence[str], progress: Progress = None) -> Op[int]:
    """The last step: remove the old keys. Returns how many."""
    return _alone(ctx, ctx.new_id(), _remove(ctx, nodes, progress))


def _alone(ctx: Context, token: str, steps: Op[T]) -> Op[T]:
    """Run the steps while no other process reshards this namespace."""
    yield from load(ctx)
    moving = ctx.keys.common.moving
    [reply] = yield [fence_call(moving, "take", token)]
    if not CLAIM_FENCE.reply(reply):
        raise Unavailable("Another process is resharding this namespace: wait until it has ended.")
    try:
        result = yield from renewing([fence_call(moving, "renew", token)], steps, ctx.clock)
    except Exception:  # of any kind, for example from on_progress
        with contextlib.suppress(Exception):  # else it expires
            yield [fence_call(moving, "release", token)]
        raise
    yield [fence_call(moving, "release", token)]
    return result


def _steps(ctx: Context, token: str, nodes: Sequence[str], shards: int, progress: Progress) -> Op[ReshardReport]:
    key, sessions, keys = ctx.keys.layout, 0, 0
    state = yield from _read_state(key)
    if state.step is None:
        if state.shards == shards and not state.begun:
            return ReshardReport(shards, shards)
        old, new, begun = (Keyspace(ctx.settings.namespace, n) for n in (state.shards, shards, state.begun or shards))
        yield [command(key, "HDEL", key, "token")]  # voids calls of an earlier coordinator that arrive late
        if state.begun not in (0, shards):
            yield from _give_up(_Reshard(nodes, Fences(old, begun, token), None, ctx.clock))
        if state.shards == shards:
            return ReshardReport(shards, shards)
        yield [command(key, "HSET", key, "begun", shards, "token", token)]
        sessions, keys = yield from _copy(_Reshard(nodes, Fences(old, new, token), progress, ctx.clock))
        state = _State(b"open", state.shards, shards, token, 0)
    elif state.shards != shards:
        raise InvalidArgument("shards", f"must be {state.shards} until the reshard to that number has ended")
    if state.step == b"open":
        yield from _open(ctx, state)
    ctx.adopt(shards, b"")
    if state.step != b"remove":
        try:
            yield from _index(ctx, state, progress)
        except Unavailable as error:
            if error.code != "OOM":  # else there is memory once the old keys are removed
                raise
    return ReshardReport(state.source, shards, sessions, keys)


def _read_state(key: str) -> Op[_State]:
    fields = ("step", "from", "shards", "sealed", "begun")
    [(step, source, shards, sealed, begun)] = yield [command(key, "HMGET", key, *fields)]
    return _State(step, int(source or shards), int(shards), text(sealed or b""), int(begun or 0))


# -- copy -------------------------------------------------------------------------------------------------------------


def _copy(reshard: _Reshard) -> Op[tuple[int, int]]:
    """Copy everything and switch the layout; returns how many sessions there are and how many keys were copied."""
    fences = reshard.fences
    yield from _check_no_bulk_kick(reshard.old)
    yield from claim_all(fences.coming("seize"))
    servers = yield from _replication_ids(reshard.nodes)
    is_resumed = yield from _resume_or_begin(reshard, servers)
    copier = Copier(reshard.old, reshard.new, fences.token)
    final = FinalCopy(copier)
    try:
        yield from renewing(
            fences.coming("renew") + fences.copying("renew"),
            _copy_in_use(reshard, copier, final, is_resumed),
            reshard.clock,
        )
        sessions = yield from _copy_frozen(reshard, copier, final, servers)
    except (CorruptData, Unavailable) as error:
        is_useless = isinstance(error, CorruptData) or error.code == "OOM"  # logins need the memory that a copy takes
        if is_useless and (yield from _stays(reshard)):
            yield fences.copying("release")
            yield from _discard(reshard)
        raise
    return sessions, copier.copied


def _resume_or_begin(reshard: _Reshard, servers: str) -> Op[bool]:
    """Resume an earlier copy, if every change since it was begun has been noted and no server has failed over; else
    begin a new one. True: resumed."""
    fences, layout = reshard.fences, reshard.old.layout
    [(copy, known_servers)] = yield [command(layout, "HMGET", layout, "copy", "servers")]
    if copy is not None and text(known_servers or b"") == servers and all((yield fences.copying("resume", text(copy)))):
        return True
    yield from renewing(fences.coming("renew"), _remove_keys(reshard.nodes, reshard.new, fences.token), reshard.clock)
    yield from claim_all(fences.copying("seize", fences.token))
    yield [command(layout, "HSET", layout, "copy", fences.token, "servers", servers)]
    return False


def _copy_in_use(reshard: _Reshard, copier: Copier, final: FinalCopy, is_resumed: bool) -> Op[None]:
    """Copy everything while it is in use, then what has changed, until few changes come while that is copied."""
    yield from final.begin()
    if is_resumed:
        yield from copier.resume()

    def copy(keys: list[bytes]) -> Op[None]:
        yield from copier.copy_keys(keys, only_missing=is_resumed)
        reshard.report("copy", copier.copied)

    def check_keys(keys: list[bytes]) -> Op[None]:
        yield from copier.check(keys)
        reshard.report("check", copier.copied)

    yield from _each_batch(reshard.nodes, reshard.old, copy)
    yield from copier.copy_lists()
    yield from final.copy_audit()
    yield from _each_batch(reshard.nodes, reshard.old, check_keys)
    before = None
    while True:
        changed = yield from copier.copy_changes(lambda: reshard.report("change", copier.copied))
        if changed <= FEW or (before and changed > before / 2):
            return
        before = changed


def _copy_frozen(reshard: _Reshard, copier: Copier, final: FinalCopy, servers: str) -> Op[int]:
    """Freeze the old shards, copy what is left, compare, seal and switch the layout; returns the number of sessions."""
    old, new, fences = reshard.old, reshard.new, reshard.fences

    def copy_rest() -> Op[int]:
        reshard.report("last", copier.copied)
        yield from _check_no_bulk_kick(old)
        yield from copier.copy_changes()
        yield from final.copy()
        return (yield from check_copy(old, new))

    try:
        yield from claim_all(fences.frozen("turn"))
        sessions = yield from renewing(fences.coming("renew") + fences.frozen("renew"), copy_rest(), reshard.clock)
        if (yield from _replication_ids(reshard.nodes)) != servers:
            raise lost()
        yield from claim_all(fences.coming("seal") + fences.frozen("seal"))
        [reply] = yield [call_of(COMMIT_LAYOUT, (old.layout,), fences.token, len(old.shards), len(new.shards))]
        if not COMMIT_LAYOUT.reply(reply):
            raise lost()
    except Exception:
        if (yield from _stays(reshard)):
            yield fences.copying("turn")
        raise
    return sessions


def _stays(reshard: _Reshard) -> Op[bool]:
    """Whether the layout has not been switched; from here on no late call of this coordinator can switch it."""
    layout, token = reshard.old.layout, reshard.fences.token
    [reply] = yield [call_of(COMMIT_LAYOUT, (layout,), token, len(reshard.old.shards), "")]
    return COMMIT_LAYOUT.reply(reply)


def _give_up(reshard: _Reshard) -> Op[None]:
    """Discard what a coordinator that died had copied to a number of shards that is not wanted any more."""
    yield from claim_all(reshard.fences.coming("seize"))
    yield from claim_all(reshard.fences.frozen("seize"))  # they may be sealed
    yield reshard.fences.frozen("release")
    yield from _discard(reshard)


def _discard(reshard: _Reshard) -> Op[None]:
    """Remove a copy: it doubles the memory, and erasing a person does not reach it."""
    fences, layout = reshard.fences, reshard.old.layout
    yield from renewing(fences.coming("renew"), _remove_keys(reshard.nodes, reshard.new, fences.token), reshard.clock)
    yield [command(layout, "HDEL", layout, "begun", "copy", "servers")]
    yield fences.coming("close")


def _replication_ids(nodes: Sequence[str]) -> Op[str]:
    """A digest of the masters' replication ids, which change in a failover. On several servers a failover may lose what
    was copied while another server knows that it was; on one server the old data would be lost, too."""
    if len(nodes) == 1:
        return ""
    replies = yield [ask(node, "INFO", "replication") for node in nodes]
    return digest(",".join(sorted(name for info in replies for name in _REPLICATION_ID.findall(text(info)))))


def _check_no_bulk_kick(old: Keyspace) -> Op[None]:
    first = old.shards[0]
    if (yield [command(first.running, "SCARD", first.running)]) != [0]:
        raise Unavailable("A bulk kick is running: wait for its end, or pause it, and try again.")


# -- open, index, remove ----------------------------------------------------------------------------------------------


def _open(ctx: Context, state: _State) -> Op[None]:
    """Close the old shards before the new ones open: no read may find a session there that was kicked here."""
    old, new = (Keyspace(ctx.settings.namespace, number) for number in (state.source, state.shards))
    yield [fence_call(s.moved, "close", state.sealed) for s in old.shards]
    yield [fence_call(s.moved, "release", state.sealed) for s in new.shards]
    yield from _finish_step(old.layout, state.sealed, "open", "index")


def _index(ctx: Context, state: _State, progress: Progress) -> Op[None]:
    yield from reindex(ctx, lambda done, of: progress("index", done) if progress else None, is_new=True)
    yield from _finish_step(ctx.keys.layout, state.sealed, "index", "remove")


def _remove(ctx: Context, nodes: Sequence[str], progress: Progress) -> Op[int]:
    state = yield from _read_state(ctx.keys.layout)
    if state.step not in (b"index", b"remove"):
        return 0
    old = Keyspace(ctx.settings.namespace, state.source)
    removed = yield from _remove_keys(nodes, old, state.sealed, progress)
    if state.step == b"index":
        yield from _index(ctx, state, progress)
    yield [fence_call(s.moved, "renew", state.sealed, ms=KEEP_FENCE) for s in old.shards]
    yield from _finish_step(ctx.keys.layout, state.sealed, "remove", "")
    return removed


def _finish_step(layout: str, sealed: str, step: str, following: str) -> Op[None]:
    [reply] = yield [call_of(FINISH_STEP, (layout,), sealed, step, following)]
    if not FINISH_STEP.reply(reply):
        raise lost()


# -- all keys of a layout ---------------------------------------------------------------------------------------------


def _each_batch(nodes: Iterable[str], of: Keyspace, act: Callable[[list[bytes]], Op[None]]) -> Op[None]:
    """Run ``act`` on every key of a layout, a batch at a time; fences are left out."""
    for node in nodes:
        yield from read_ahead(partial(_scan_node, node, of), lambda keys: act(_without_fences(keys)))


def _scan_node(node: str, of: Keyspace, cursor: bytes) -> Call:
    pattern = f"{{{of.namespace}:{len(of.shards)}:*"
    return ask(node, "SCAN", text(cursor), "MATCH", pattern, "COUNT", str(BATCH))


def _without_fences(keys: Iterable[bytes]) -> list[bytes]:
    return [key for key in keys if key.partition(b"}")[2] not in (b":moved", b"")]


def _remove_keys(nodes: Iterable[str], of: Keyspace, token: str, progress: Progress = None) -> Op[int]:
    removed = 0

    def act(keys: list[bytes]) -> Op[None]:
        nonlocal removed
        by_fence: dict[str, list[bytes]] = {}
        for key in keys:
            by_fence.setdefault(fence_of(key[: key.index(b"}") + 1].decode()), []).append(key)
        if by_fence:
            yield from claim_all([call_of(REMOVE_KEYS, (fence, *part), token) for fence, part in by_fence.items()])
        removed += len(keys)
        if progress:
            progress("remove", removed)

    yield from _each_batch(nodes, of, act)
    return removed
