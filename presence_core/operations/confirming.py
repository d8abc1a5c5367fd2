"""Kicks, blocks and revocations that too few replicas have confirmed: the client that asked for them holds them, and
applies them again until they are.

WAIT tells how many replicas have a write; it does not make Redis strongly consistent. A failover may promote a replica
without the kick, and the session lives again. So each round looks first. A session that lives again is ended again, if
it is the one that was ended (by its login time: one begun later is another). A block that is gone is set again unless
staff have lifted it: a block and its audit entry are one write, so where the entry stands the block was not lost. WAIT
is asked in the same batch, behind a write of its own, and counts if nothing had to be done again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from presence_core.errors import CorruptData, Unavailable
from presence_core.keyspace import Shard, digest
from presence_core.models import Block, Session
from presence_core.operations.context import LIVE, Context, found_rows
from presence_core.scripts import AUDIT, BLOCK, BLOCKED, READ, REVOKE, Call, Op, command, run, wait

if TYPE_CHECKING:
    from presence_core.operations.ending import Why

MOST_HELD: Final = 10_000
"""What one client holds at most; beyond it the oldest are let go."""

Named = tuple[tuple[str, Any], Any]
"""What is held, and its name in ``Context.unconfirmed``."""

_AT_ONCE: Final = 100
_LOOK: Final = 1_000  # audit entries in which a block is looked for


@dataclass(frozen=True, slots=True)
class HeldEnd:
    """A session that was ended."""

    uid: str
    session_id: str
    began: int  #: ms
    why: Why


@dataclass(frozen=True, slots=True)
class HeldMark:
    """A watermark of revoke_before."""

    upto: int  #: ms
    by: str
    note: str
    message: str


def login_ms(one: Session) -> int:
    """When it began, as scripts write it."""
    return round(one.login_at.timestamp() * 1000)


def waits(ctx: Context, shards: Iterable[Shard]) -> list[Call]:
    """What goes behind changes of these shards, in their batch; nothing where no confirmation is asked for."""
    settings = ctx.settings
    if not settings.confirm_replicas:
        return []
    return [wait(s.tag, settings.confirm_replicas, settings.confirm_timeout) for s in dict.fromkeys(shards)]


def is_confirmed(ctx: Context, answers: Iterable[Any]) -> bool | None:
    """What came of ``waits``; None where it was not asked."""
    if not ctx.settings.confirm_replicas:
        return None
    return all(isinstance(number, int) and number >= ctx.settings.confirm_replicas for number in answers)


def hold_ends(ctx: Context, why: Why, ended: Iterable[Session]) -> None:
    """Keep these until they are confirmed; each by itself, not as a part of a job that may be over by then."""
    alone = replace(why, job="", epoch=0, block_for="")
    for one in ended:
        _hold(ctx, ("end", one.ref), HeldEnd(one.uid, one.session_id, login_ms(one), alone))


def hold_block(ctx: Context, block: Block) -> None:
    _hold(ctx, ("block", block.uid), block)


def hold_mark(ctx: Context, mark: HeldMark) -> None:
    _hold(ctx, ("revoke", mark.upto), mark)


def _hold(ctx: Context, name: tuple[str, Any], held: Any) -> None:
    while len(ctx.unconfirmed) >= MOST_HELD:
        ctx.unconfirmed.pop(next(iter(ctx.unconfirmed)), None)
    ctx.unconfirmed[name] = held


def confirm(ctx: Context) -> Op[int]:
    """One round over all that is held; answers how many are left. Raises Unavailable once all of it was tried, and
    holds still what could not be reached."""
    parts: list[tuple[Shard | None, list[Named]]] = []
    by_shard: dict[Shard, list[Named]] = {}
    for name, one in list(ctx.unconfirmed.items()):
        if isinstance(one, HeldMark):
            parts.append((None, [(name, one)]))
        else:
            by_shard.setdefault(ctx.shard(one.uid), []).append((name, one))
    for s, items in by_shard.items():
        parts += [(s, items[first : first + _AT_ONCE]) for first in range(0, len(items), _AT_ONCE)]
    away: Unavailable | None = None
    while parts:
        at, part = parts.pop()
        try:
            held = [one for _, one in part]
            sure = yield from (_mark(ctx, held[0]) if at is None else _again(ctx, at, held))
        except Unavailable as error:  # one master is away: the others' turn all the same
            away, sure = error, False
        except CorruptData:
            if len(part) > 1:
                parts += [(at, [single]) for single in part]
                continue
            sure = True  # what stands there now is no session and no block
        for name, one in part if sure else ():
            if ctx.unconfirmed.get(name) is one:
                ctx.unconfirmed.pop(name, None)
    if away is not None:
        raise away
    return len(ctx.unconfirmed)


def _again(ctx: Context, s: Shard, part: list[HeldEnd | Block]) -> Op[bool]:
    """Look at each and ask how many replicas have all of it; do again what was lost, to be asked for next time."""
    ends = [one for one in part if isinstance(one, HeldEnd)]
    blocks = [one for one in part if isinstance(one, Block)]
    # One batch, and so one master: what was seen on one says nothing of what the replicas of the next have. WAIT counts
    # from the connection's own last write, which is made here.
    keys = (s.sessions, s.closing, s.labels, s.meta)
    replies = yield [
        *(run(READ, (s.user(one.uid), *keys), ctx.now, one.uid, s.record_prefix, one.session_id) for one in ends),
        *(run(BLOCKED, (s.block(one.uid),), ctx.now, "strict") for one in blocks),
        run(AUDIT, (s.audit,), ctx.now, _LOOK if blocks else 1, "+"),
        *_beats(ctx, [s]),
    ]
    now, _, entries = replies[len(part)]
    lost: list[Call] = []
    for one, reply in zip(ends, replies, strict=False):
        found = [row for row in found_rows(one.uid, reply) if row.state == LIVE]
        if any(login_ms(row.session()) == one.began for row in found):
            lost.append(one.why.one(ctx, s, one.uid, one.session_id, one.began))
    told = {tuple(dict(zip(e[::2], e[1::2], strict=True)).get(f) for f in (b"uid", b"at")) for _, e in entries}
    for block, [(state, row)] in zip(blocks, replies[len(ends) :], strict=False):
        there = state == 1 and _changed(Block.from_reply(block.uid, row)) >= _changed(block)
        is_over = block.until is not None and _ms(block.until.timestamp()) <= now
        if not (there or is_over or (block.uid.encode(), b"%d" % _changed(block)) in told):
            lost.append(set_again(ctx, s, block))
    if lost:
        yield lost
        return False
    return bool(is_confirmed(ctx, replies[-1:]))


def _changed(block: Block) -> int:
    """When a block became what it is, ms."""
    return _ms((block.changed or block.at).timestamp())


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def set_again(ctx: Context, s: Shard, block: Block) -> Call:
    """Block a user as ``block`` says, as of when it was set: merged with what holds now. Changes nothing where it is
    still there, where its time is over, or where staff have changed or lifted it since."""
    end = "" if block.until is None else f"={_ms(block.until.timestamp())}"
    return run(BLOCK, (s.block(block.uid), s.blocks, s.audit), ctx.now, ctx.policy, block.uid, block.by, block.reason,
               block.message or "", "\n".join(block.tickets), end, "again", _ms(block.at.timestamp()),
               _changed(block))  # fmt: skip


def _beats(ctx: Context, shards: Sequence[Shard]) -> list[Call]:
    """A write for WAIT to stand behind, and WAIT."""
    return [*(command(s.meta, "HSET", s.meta, "confirmed", "1") for s in shards), *waits(ctx, shards)]


def _mark(ctx: Context, mark: HeldMark) -> Op[bool]:
    shards = ctx.keys.shards
    calls = mark_calls(ctx, shards, str(mark.upto), mark.by, mark.note, mark.message, 0)
    replies = yield [*calls, *_beats(ctx, shards)]
    return bool(is_confirmed(ctx, replies[2 * len(shards) :]))


def mark_calls(
    ctx: Context, shards: Iterable[Shard], upto: str, by: str, note: str, message: str, tell: int
) -> list[Call]:
    """Raise the watermark of these shards to ``upto``, ms, or now; ``tell``: the audit has it once."""
    note_id, message_id = digest(note), digest(message) if message else ""
    return [
        run(REVOKE, (s.meta, s.sessions, s.note(note_id), s.note(message_id), s.audit), ctx.now, ctx.audit_cap, upto,
            by, note_id, note, message_id, message, ctx.settings.keep_kicked, tell)
        for s in shards
    ]  # fmt: skip
