"""Changes that the client holds, so that no failover undoes them; and replica acknowledgements.

WAIT says how many replicas have a write. It does not make Redis strongly consistent: a failover may promote a replica
without the kick, and the session is live again. So where ``confirm_replicas`` asks for it, the client holds each change
until enough replicas have it, and then for ``confirm_hold`` seconds more, because a master that is being replaced may
still have replicas that answer WAIT. ``replica_ack`` applies it again where it was lost.

Three rare cases are not covered. If two processes rotate one session during the hold, and a failover loses both, the
first token may work. If the clocks of two servers differ by seconds, a session that began within that difference after
a kick may be ended. If staff change the same timeouts or block rule during the hold, and a failover follows, the older
change may win.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from presence_core.errors import Unavailable
from presence_core.keyspace import Shard
from presence_core.operations.context import Context
from presence_core.scripts.calls import Call, Op, command, server_info, wait

MAX_HELD: Final = 100_000
"""Changes that one client holds at most: some 400 bytes each."""


@dataclass(slots=True, eq=False)
class Held:
    """A change that is held."""

    shard: Shard | None  #: None: it is on all shards
    uid: str  #: "" for a change on all shards
    server: bytes = field(default=b"", init=False)  #: identity of the server that surely has it; b"" while none does
    until: float = field(default=0.0, init=False)
    """When the hold ends, by the client's clock; 0 while too few replicas have the change."""


class HeldOfUser(Held, ABC):
    """A change of one user, on their shard."""

    __slots__ = ()

    @abstractmethod
    def reads(self, ctx: Context, s: Shard) -> list[Call]:
        """Read what the shard has of it."""

    @abstractmethod
    def repairs(self, ctx: Context, s: Shard, replies: Sequence[Any], server: bytes) -> list[Call]:
        """Given the replies to ``reads``, the calls that apply it again; none where it is in place. ``server``: the
        identity of the server that answered, as far as known."""

    def was_lost(self, reply: Any) -> bool:
        """Whether a call of ``repairs`` had anything to apply."""
        return True

    def further_steps(self, server: bytes) -> Op[object] | None:
        """What is to be done behind all calls of ``repairs``, if anything."""
        return None


class HeldEverywhere(Held, ABC):
    """A change on all shards."""

    __slots__ = ()

    @abstractmethod
    def calls(self, ctx: Context) -> list[Call]:
        """Make it again: does nothing where it is in place, or where there is a later one."""


# -- asking the replicas ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Replicas:
    """Whether the replicas of these shards have a change, and which servers the shards are on."""

    confirmed: bool | None  #: enough replicas have the change; None: not asked
    servers: dict[Shard, bytes]  #: identities; a shard is missing where it is not known

    def __and__(self, other: Replicas) -> Replicas:
        is_asked = self.confirmed is not None and other.confirmed is not None
        return Replicas(self.confirmed and other.confirmed if is_asked else None, self.servers | other.servers)


def wait_calls(ctx: Context, shards: Iterable[Shard]) -> list[Call]:
    """The calls behind changes of these shards, in their batch; none where no confirmation is configured."""
    settings = ctx.settings
    if not settings.confirm_replicas:
        return []
    distinct = list(dict.fromkeys(shards))
    return [
        *(server_info(s.tag) for s in distinct),
        *(wait(s.tag, settings.confirm_replicas, settings.confirm_timeout) for s in distinct),
    ]


def read_confirmations(ctx: Context, shards: Iterable[Shard], replies: Sequence[Any]) -> Replicas:
    """Read the replies to ``wait_calls``, which are the last ones of the batch."""
    if not ctx.settings.confirm_replicas:
        return Replicas(None, {})
    distinct = list(dict.fromkeys(shards))
    replies = replies[len(replies) - 2 * len(distinct) :]
    identities = {s: identity_of(info) for s, info in zip(distinct, replies, strict=False)}
    waited = replies[len(distinct) :]
    confirmed = all(isinstance(number, int) and number >= ctx.settings.confirm_replicas for number in waited)
    return Replicas(confirmed, {s: identity for s, identity in identities.items() if identity})


def identity_of(info: Any) -> bytes:
    """Which server this is, and which history of writes it has; b"" where that is not known."""
    if not isinstance(info, bytes):
        return b""
    info_fields = dict(line.partition(b":")[::2] for line in info.split(b"\r\n"))
    run_id, history = info_fields.get(b"run_id", b""), info_fields.get(b"master_replid", b"")
    return bytes.fromhex((run_id + history).decode()) if run_id and history else b""


def write_and_wait_calls(ctx: Context, shards: Iterable[Shard]) -> list[Call]:
    """``wait_calls`` behind a write of its own, for changes that were written in another batch."""
    waits = wait_calls(ctx, shards)
    writes = [command(key, "HSET", key, "confirmed", "1") for key in dict.fromkeys(s.meta for s in shards)]
    return [*writes, *waits] if waits else []


def confirmation(ctx: Context, shards: Sequence[Shard]) -> Op[Replicas]:
    """Whether enough replicas have all earlier writes to these shards, in a round trip of its own."""
    behind = write_and_wait_calls(ctx, shards)
    return read_confirmations(ctx, shards, (yield behind) if behind else [])


# -- holding ----------------------------------------------------------------------------------------------------------


def check_capacity(ctx: Context) -> None:
    """Refuse a change by staff before it is made, where no more changes can be held."""
    if ctx.settings.confirm_replicas and len(ctx.held) >= MAX_HELD:
        raise Unavailable(
            f"Nothing was done: this process already holds {MAX_HELD:,} changes that a failover could undo. "
            "Try again in some seconds, or from another process."
        )


def hold(ctx: Context, replicas: Replicas, name: Hashable, change: Held) -> None:
    """Keep a change until enough replicas have it, and then as long as ``confirm_hold`` says."""
    if replicas.confirmed is None or (replicas.confirmed and not ctx.settings.confirm_hold):
        return
    if len(ctx.held) >= MAX_HELD and name not in ctx.held:
        ctx.not_held += 1  # the client logs it
        return
    change.server = server_of(ctx, replicas.servers, change)
    if replicas.confirmed and change.server:
        change.until = ctx.clock() + ctx.settings.confirm_hold
    ctx.held.pop(name, None)
    ctx.held[name] = change


def release(ctx: Context, uid: str) -> dict[Hashable, Held]:
    """Stop holding changes of this user; returns them."""
    released = {name: change for name, change in list(ctx.held.items()) if change.uid == uid}
    for name in released:
        ctx.held.pop(name, None)
    return released


def server_of(ctx: Context, servers: dict[Shard, bytes], change: Held) -> bytes:
    """The identity of the server of this change; of all servers, for a change on all shards; b"" where not known."""
    if change.shard is not None:
        return servers.get(change.shard, b"")
    known = [servers.get(s, b"") for s in ctx.keys.shards]
    return b"".join(sorted(set(known))) if all(known) else b""


def unconfirmed(ctx: Context) -> int:
    """How many held changes too few replicas have, as far as is known."""
    return sum(not change.until for change in list(ctx.held.values()))
