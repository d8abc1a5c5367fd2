"""Ends, blocks and revocations that the client holds, so that no failover undoes them; and what replicas say of them.

WAIT says how many replicas have a write. It does not make Redis strongly consistent: a failover may promote a replica
without the kick, and the session lives again. So where ``confirm_replicas`` asks for it, the client holds each change
until enough replicas have it, and then for ``confirm_hold`` seconds more: a master that is being replaced still has
replicas that answer WAIT. ``confirming`` applies it again where it was lost.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from presence_core.errors import Unavailable
from presence_core.keyspace import Shard, digest, split_ref
from presence_core.models import Block, Session
from presence_core.operations.context import Context
from presence_core.scripts import REVOKE, ROTATE, Call, Op, command, run, tell, wait

if TYPE_CHECKING:
    from presence_core.operations.ending import Why

MOST_HELD: Final = 100_000
"""Changes that one client holds at most: some 400 bytes each."""

_MOST_SECRETS: Final = 16  # of one session, replaced one after the other while they were held


class Held:
    """A change that is held. ``on``: the identity of the server where it is known to be in place, b"" while that is not
    known; ``until``: when the hold ends, by the client's clock, 0 while too few replicas have it. ``shard``: None for
    what is on all of them."""

    __slots__ = ("on", "shard", "until")

    def __init__(self, shard: Shard | None) -> None:
        self.shard = shard
        self.on = b""
        self.until = 0.0

    @property
    def uid(self) -> str:
        return ""


class HeldEnd(Held):
    """One session that was ended. ``upto``: it began by then, ms; one that began later under its id is another."""

    __slots__ = ("ref", "upto", "why")

    def __init__(self, shard: Shard, ref: str, upto: int, why: Why) -> None:
        super().__init__(shard)
        self.ref, self.upto, self.why = ref, upto, why

    @property
    def uid(self) -> str:
        return split_ref(self.ref)[0]


class HeldEnds(Held):
    """All sessions of a user that began by ``upto``, but those to keep."""

    __slots__ = ("keep", "upto", "user", "why")

    def __init__(self, shard: Shard, user: str, keep: Iterable[str], upto: int, why: Why) -> None:
        super().__init__(shard)
        self.user, self.keep, self.upto, self.why = user, frozenset(keep), upto, why

    @property
    def uid(self) -> str:
        return self.user


class HeldSecret(Held):
    """A session's secret that was replaced: digests alone."""

    __slots__ = ("new", "old", "ref")

    def __init__(self, shard: Shard, ref: str, old: tuple[bytes, ...], new: bytes) -> None:
        super().__init__(shard)
        self.ref, self.old, self.new = ref, old, new

    @property
    def uid(self) -> str:
        return split_ref(self.ref)[0]


class HeldBlock(Held):
    """A block."""

    __slots__ = ("block",)

    def __init__(self, shard: Shard, block: Block) -> None:
        super().__init__(shard)
        self.block = block

    @property
    def uid(self) -> str:
        return self.block.uid


class HeldErasure(Held):
    """A person who was erased: ``again`` does it once more where something from before ``upto`` is back."""

    __slots__ = ("again", "upto", "user")

    def __init__(self, shard: Shard, user: str, upto: int, again: Callable[[], Op[object]]) -> None:
        super().__init__(shard)
        self.user, self.upto, self.again = user, upto, again

    @property
    def uid(self) -> str:
        return self.user


class HeldMark(Held):
    """A watermark of revoke_before."""

    __slots__ = ("by", "message", "note", "upto")

    def __init__(self, upto: int, by: str, note: str, message: str) -> None:
        super().__init__(None)
        self.upto, self.by, self.note, self.message = upto, by, note, message


# -- asking the replicas ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Replicas:
    """What the servers of these shards said behind a change: WAIT, and who they are."""

    sure: bool | None  #: enough replicas have the change; None: not asked
    servers: dict[Shard, bytes]  #: identities; a shard is missing where it is not known

    def __and__(self, other: Replicas) -> Replicas:
        sure = None if self.sure is None or other.sure is None else self.sure and other.sure
        return Replicas(sure, self.servers | other.servers)


def asking(ctx: Context, shards: Iterable[Shard]) -> list[Call]:
    """What goes behind changes of these shards, in their batch; nothing where no confirmation is asked for."""
    settings = ctx.settings
    if not settings.confirm_replicas:
        return []
    asked = list(dict.fromkeys(shards))
    return [
        *(tell(s.tag) for s in asked),
        *(wait(s.tag, settings.confirm_replicas, settings.confirm_timeout) for s in asked),
    ]


def answered(ctx: Context, shards: Iterable[Shard], replies: Sequence[Any]) -> Replicas:
    """Read the replies to ``asking``, which are the last ones of the batch."""
    if not ctx.settings.confirm_replicas:
        return Replicas(None, {})
    asked = list(dict.fromkeys(shards))
    replies = replies[len(replies) - 2 * len(asked) :]
    identities = {s: identity_of(info) for s, info in zip(asked, replies, strict=False)}
    waited = replies[len(asked) :]
    sure = all(isinstance(number, int) and number >= ctx.settings.confirm_replicas for number in waited)
    return Replicas(sure, {s: identity for s, identity in identities.items() if identity})


def identity_of(info: Any) -> bytes:
    """Which server this is and which history of writes it is in; b"" where that is not known."""
    if not isinstance(info, bytes):
        return b""
    about = dict(line.partition(b":")[::2] for line in info.split(b"\r\n"))
    run_id, history = about.get(b"run_id", b""), about.get(b"master_replid", b"")
    return bytes.fromhex((run_id + history).decode()) if run_id and history else b""


def beats(ctx: Context, shards: Iterable[Shard]) -> list[Call]:
    """``asking`` behind a write of its own: what it is about was written in another batch."""
    asked = asking(ctx, shards)
    writes = [command(key, "HSET", key, "confirmed", "1") for key in dict.fromkeys(s.meta for s in shards)]
    return [*writes, *asked] if asked else []


def confirmation(ctx: Context, shards: Sequence[Shard]) -> Op[Replicas]:
    """Whether enough replicas have all that was written to these shards before, in a round trip of its own."""
    behind = beats(ctx, shards)
    return answered(ctx, shards, (yield behind) if behind else [])


# -- holding ----------------------------------------------------------------------------------------------------------


def check_room(ctx: Context) -> None:
    """Before a change by staff: where no more can be held, they hear it, and nothing is done."""
    if ctx.settings.confirm_replicas and len(ctx.held) >= MOST_HELD:
        raise Unavailable(
            f"Nothing was done: this process already holds {MOST_HELD:,} changes that a failover could undo. "
            "Try again in some seconds, or from another process."
        )


def hold(ctx: Context, told: Replicas, name: Hashable, change: Held) -> None:
    """Keep a change until enough replicas have it, and then as long as ``confirm_hold`` says."""
    if told.sure is None or (told.sure and not ctx.settings.confirm_hold):
        return
    if len(ctx.held) >= MOST_HELD and name not in ctx.held:
        ctx.not_held += 1  # the client logs it
        return
    change.on = server_of(ctx, told.servers, change)
    if told.sure and change.on:
        change.until = ctx.clock() + ctx.settings.confirm_hold
    ctx.held.pop(name, None)
    ctx.held[name] = change


def hold_end(ctx: Context, told: Replicas, why: Why, uid: str, session_id: str, upto: int) -> None:
    """``why`` was ``alone``."""
    if told.sure is not None and upto:
        ref = f"{uid}:{session_id}"
        hold(ctx, told, ref, HeldEnd(ctx.shard(uid), ref, upto, why))


def hold_ends(ctx: Context, told: Replicas, why: Why, ended: Iterable[Session]) -> None:
    """Hold these."""
    own = alone(why)
    for one in ended:
        hold_end(ctx, told, own, one.uid, one.session_id, login_ms(one))


def hold_block(ctx: Context, told: Replicas, block: Block) -> None:
    hold(ctx, told, ("block", block.uid), HeldBlock(ctx.shard(block.uid), block))


def hold_secret(ctx: Context, told: Replicas, uid: str, session_id: str, old: bytes, new: bytes) -> None:
    ref = f"{uid}:{session_id}"
    before = ctx.held.get(("secret", ref))
    earlier = before.old if isinstance(before, HeldSecret) and before.new == old else ()
    hold(ctx, told, ("secret", ref), HeldSecret(ctx.shard(uid), ref, (*earlier, old)[-_MOST_SECRETS:], new))


def alone(why: Why) -> Why:
    """The same by itself: not as a part of a bulk kick, which may have ended by then, and without its block."""
    return replace(why, job="", epoch=0, block_for="")


def release(ctx: Context, uid: str) -> None:
    """What is held of this user is held no longer."""
    for name, change in list(ctx.held.items()):
        if change.uid == uid:
            ctx.held.pop(name, None)


def login_ms(one: Session) -> int:
    """When it began, as scripts write it."""
    return round(one.login_at.timestamp() * 1000)


def login_of(row: Sequence[bytes | None]) -> int:
    """The same of a row as a script answers it; 0 for none."""
    return int.from_bytes((row[1] or b"")[:8], "big") if row else 0


def server_of(ctx: Context, servers: dict[Shard, bytes], change: Held) -> bytes:
    """Of these identities that of the server of this change; of one that is on all, all of them."""
    if change.shard is not None:
        return servers.get(change.shard, b"")
    known = [servers.get(s, b"") for s in ctx.keys.shards]
    return b"".join(sorted(set(known))) if all(known) else b""


def unconfirmed(ctx: Context) -> int:
    """How many of those held too few replicas have, as far as is known."""
    return sum(not change.until for change in list(ctx.held.values()))


# -- changes that are made here, and again in a round ----------------------------------------------------------------


def rotation(ctx: Context, s: Shard, uid: str, session_id: str, old: bytes, new: bytes) -> Call:
    """Put a new secret in the place of the old one; digests of both."""
    return run(ROTATE, (s.sessions, s.closing, s.meta, s.record(uid, session_id)), ctx.now, uid, session_id, old, new)


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
