"""Ends of sessions that the client holds, watermarks of ``revoke_before``, and blocks: see ``durability``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from presence_core.keyspace import Shard, digest
from presence_core.models import Block, as_ms
from presence_core.operations.context import Context, FoundSession, found_rows
from presence_core.operations.durability.held_changes import HeldEverywhere, HeldOfUser, Replicas, hold, server_of
from presence_core.operations.sessions.end_request import EndRequest
from presence_core.operations.sessions.read import read_call
from presence_core.scripts.calls import Call, Op, call_of
from presence_core.scripts.sessions import LIVE, REVOKE_BEFORE
from presence_core.scripts.staff import BLOCK_USER, READ_BLOCKS


class HeldOfSessions(HeldOfUser, ABC):
    """A change of sessions of a user: lost where one of them is live without it."""

    __slots__ = ()

    @abstractmethod
    def session_ids(self) -> Sequence[str]:
        """The sessions; empty for all."""

    @abstractmethod
    def repair(self, ctx: Context, s: Shard, live: FoundSession) -> list[Call]:
        """The calls that apply it to this live session again; none where it is in place."""

    def reads(self, ctx: Context, s: Shard) -> list[Call]:
        return [read_call(ctx, s, self.uid, self.session_ids())]

    def repairs(self, ctx: Context, s: Shard, replies: Sequence[Any], server: bytes) -> list[Call]:
        found = found_rows(self.uid, replies[0])
        return [call for session in found if session.state == LIVE for call in self.repair(ctx, s, session)]


@dataclass(slots=True, eq=False)
class HeldEnd(HeldOfSessions):
    """A session that was ended; or all sessions of a user, but those to keep."""

    upto: int  #: they began by then, ms; one that began later is another session
    request: EndRequest
    session_id: str = ""
    keep: frozenset[str] = frozenset()

    def session_ids(self) -> Sequence[str]:
        return [self.session_id] if self.session_id else []

    def repair(self, ctx: Context, s: Shard, live: FoundSession) -> list[Call]:
        if live.row.login > self.upto or live.session_id in self.keep:
            return []
        return [self.end_again(ctx, s, live.session_id, live.row.login)]

    def end_again(self, ctx: Context, s: Shard, session_id: str, began: int) -> Call:
        """The call that ends it, if it began at this time, ms."""
        return self.request.end_one(ctx, s, self.uid, session_id, began)


def hold_end(ctx: Context, replicas: Replicas, request: EndRequest, uid: str, session_id: str, upto: int) -> None:
    """Hold an end; ``request`` has no block (``without_block``)."""
    if replicas.confirmed is not None and upto:
        hold(ctx, replicas, name_of_end(uid, session_id), HeldEnd(ctx.shard(uid), uid, upto, request, session_id))


def name_of_end(uid: str, session_id: str) -> str:
    """The name of a session's end among the changes that are held."""
    return f"{uid}:{session_id}"


@dataclass(slots=True, eq=False)
class HeldWatermark(HeldEverywhere):
    """A watermark of revoke_before."""

    upto: int
    by: str
    note: str
    message: str

    def calls(self, ctx: Context) -> list[Call]:
        return watermark_calls(ctx, ctx.keys.shards, str(self.upto), self.by, self.note, self.message, "")


def watermark_calls(
    ctx: Context, shards: Iterable[Shard], upto: str, by: str, note: str, message: str, call_id: str
) -> list[Call]:
    """Raise the watermark of these shards to ``upto``, ms. ``call_id``: "", or on the shard that writes the
    audit entry an id by which the script knows a call that is sent again."""
    note_id, message_id = digest(note), digest(message) if message else ""
    return [
        call_of(REVOKE_BEFORE, (s.meta, s.sessions, s.note(note_id), s.note(message_id), s.audit), given_now=ctx.now,
                audit_cap=ctx.audit_cap, given_upto=upto, by=by, note_id=note_id, note=note, message_id=message_id,
                message=message, keep=ctx.settings.keep_kicked, call_id=call_id)
        for s in shards
    ]  # fmt: skip


@dataclass(slots=True, eq=False)
class HeldBlock(HeldOfUser):
    """A block, by staff or with a kick."""

    block: Block
    seen_server: bytes = field(default=b"", init=False)
    """Identity of the last server that had it. Missing there, it was lost in no failover: staff have removed it."""

    def reads(self, ctx: Context, s: Shard) -> list[Call]:
        return [call_of(READ_BLOCKS, (s.block(self.uid),), ctx.now, "strict")]

    def repairs(self, ctx: Context, s: Shard, replies: Sequence[Any], server: bytes) -> list[Call]:
        is_known_there = self.seen_server and self.seen_server == server
        return [] if _is_in_force(self.block, replies[0]) or is_known_there else [set_again(ctx, s, self.block)]

    def was_lost(self, reply: Any) -> bool:
        return bool(reply)  # a block that has ended, or that staff have changed since, is not set: 0

    def further_steps(self, server: bytes) -> Op[object] | None:
        self.seen_server = server
        return None


def hold_block(ctx: Context, replicas: Replicas, block: Block) -> None:
    change = HeldBlock(ctx.shard(block.uid), block.uid, block)
    change.seen_server = server_of(ctx, replicas.servers, change)
    hold(ctx, replicas, ("block", block.uid), change)


def _is_in_force(block: Block, reply: Any) -> bool:
    """Whether the user has this block, or a later one."""
    [found] = READ_BLOCKS.reply(reply)
    return bool(found.blocks) and _changed(Block.from_reply(block.uid, found.row)) >= _changed(block)


def _changed(block: Block) -> int:
    """When a block became what it is, ms."""
    return as_ms(block.changed or block.at)


def set_again(ctx: Context, s: Shard, block: Block) -> Call:
    """Set a block again, as of when it was set, merged with the block that there is now. Changes nothing where it is
    still in force, where it has ended, or where staff have changed or removed it since."""
    end = "" if block.until is None else f"={as_ms(block.until)}"
    return call_of(BLOCK_USER, (s.block(block.uid), s.blocks, s.audit), given_now=ctx.now,
                   packed_policy=ctx.cache.policy, uid=block.uid, by=block.by,
                   reason=block.reason, message=block.message or "", tickets="\n".join(block.tickets),
                   given_end=end, mode="again", given_at=as_ms(block.at), given_changed=_changed(block))  # fmt: skip
