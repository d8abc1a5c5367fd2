"""Ends, blocks and revocations that the client holds, so that no failover undoes them; and replica acknowledgements.

WAIT says how many replicas have a write. It does not make Redis strongly consistent: a failover may promote a replica
without the kick, and the session is live again. So where ``confirm_replicas`` asks for it, the client holds each change
until enough replicas have it, and then for ``confirm_hold`` seconds more, because a master that is being replaced may
still have replicas that answer WAIT. ``replica_ack`` applies it again where it was lost.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from presence_core.errors import Unavailable
from presence_core.keyspace import Shard, digest
from presence_core.models import Block, Session
from presence_core.operations.context import Context
from presence_core.operations.sessions.end_request import EndRequest
from presence_core.scripts.calls import Call, Op, call_of, command, server_info, wait
from presence_core.scripts.sessions import REQUIRE_SIGN_IN, REVOKE_BEFORE, ROTATE_SECRET
from presence_core.scripts.staff import STORE_BLOCK_RULES

MAX_HELD: Final = 100_000
"""Changes that one client holds at most: some 400 bytes each."""

_MAX_SECRETS: Final = 16  # of one session, replaced one after the other while they were held


@dataclass(slots=True, eq=False)
class Held:
    """A change that is held."""

    shard: Shard | None  #: None: it is on all shards
    uid: str  #: "" for a change on all shards
    server: bytes = field(default=b"", init=False)  #: identity of the server that surely has it; b"" while none does
    until: float = field(default=0.0, init=False)
    """When the hold ends, by the client's clock; 0 while too few replicas have the change."""


@dataclass(slots=True, eq=False)
class HeldEnd(Held):
    """One session that was ended."""

    session_id: str
    upto: int  #: it began by then, ms; one that began later is another session
    request: EndRequest
    job_id: str = ""  #: the bulk kick that ended it


@dataclass(slots=True, eq=False)
class HeldEnds(Held):
    """All sessions of a user, but those to keep."""

    keep: frozenset[str]
    upto: int  #: they began by then, ms
    request: EndRequest


@dataclass(slots=True, eq=False)
class HeldSecret(Held):
    """A session's secret that was replaced; only digests."""

    session_id: str
    old: tuple[bytes, ...]
    new: bytes
    authentication: Authentication | None


@dataclass(slots=True, eq=False)
class HeldDemand(Held):
    """A sign-in that staff require of these sessions."""

    request: DemandRequest
    session_ids: tuple[str, ...]
    at: int  #: when it was required, ms
    upto: int  #: they began by then, ms; one that began later is another session


@dataclass(slots=True, eq=False)
class HeldBlock(Held):
    """A block."""

    block: Block
    seen_server: bytes = field(default=b"", init=False)
    """Identity of the last server that had it. Missing there, it was lost in no failover: staff have removed it."""


@dataclass(slots=True, eq=False)
class HeldErasure(Held):
    """A person who was erased."""

    upto: int  #: when, ms
    again: Callable[[], Op[object]]  #: erases them again where data from before ``upto`` is back
    is_lost: bool = field(default=False, init=False)  #: data is back; ``again`` removes it in steps, and may fail


@dataclass(slots=True, eq=False)
class HeldWatermark(Held):
    """A watermark of revoke_before."""

    upto: int
    by: str
    note: str
    message: str


@dataclass(slots=True, eq=False)
class HeldRules(Held):
    """All block rules, as of a version."""

    version: int
    rules: Mapping[bytes, bytes]


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


def hold_end(
    ctx: Context, replicas: Replicas, request: EndRequest, uid: str, session_id: str, upto: int, job_id: str = ""
) -> None:
    """Hold an end; ``request`` has no block (``without_block``)."""
    if replicas.confirmed is not None and upto:
        hold(ctx, replicas, f"{uid}:{session_id}", HeldEnd(ctx.shard(uid), uid, session_id, upto, request, job_id))


def hold_ends(
    ctx: Context, replicas: Replicas, request: EndRequest, ended: Iterable[Session], job_id: str = ""
) -> None:
    """Hold the ends of these sessions."""
    own = request.without_block()
    for session in ended:
        hold_end(ctx, replicas, own, session.uid, session.session_id, login_ms(session), job_id)


def hold_block(ctx: Context, replicas: Replicas, block: Block) -> None:
    change = HeldBlock(ctx.shard(block.uid), block.uid, block)
    change.seen_server = server_of(ctx, replicas.servers, change)
    hold(ctx, replicas, ("block", block.uid), change)


def hold_secret(
    ctx: Context,
    replicas: Replicas,
    uid: str,
    session_id: str,
    old: bytes,
    new: bytes,
    authentication: Authentication | None = None,
) -> None:
    name, earlier = ("secret", uid, session_id), tuple[bytes, ...]()
    before = ctx.held.get(name)
    if isinstance(before, HeldSecret) and before.new == old:
        earlier, authentication = before.old, authentication or before.authentication
    olds = (*earlier, old)[-_MAX_SECRETS:]
    hold(ctx, replicas, name, HeldSecret(ctx.shard(uid), uid, session_id, olds, new, authentication))


def hold_demand(ctx: Context, replicas: Replicas, request: DemandRequest, at: int, logins: Mapping[str, int]) -> None:
    """Hold a required sign-in. ``logins``: session id to login time, ms."""
    uid, ids = request.uid, tuple(logins)
    if ids:
        change = HeldDemand(ctx.shard(uid), uid, request, ids, at, max(at, *logins.values()))
        hold(ctx, replicas, ("sign_in", uid, *sorted(ids)), change)


def hold_rules(ctx: Context, replicas: Replicas, version: int, rules: Mapping[bytes, bytes]) -> None:
    """Hold the block rules, unless a newer version is held."""
    before = ctx.held.get("block_rules")
    if not (isinstance(before, HeldRules) and before.version > version):
        hold(ctx, replicas, "block_rules", HeldRules(None, "", version, rules))


def release(ctx: Context, uid: str) -> dict[Hashable, Held]:
    """Stop holding changes of this user; returns them."""
    released = {name: change for name, change in list(ctx.held.items()) if change.uid == uid}
    for name in released:
        ctx.held.pop(name, None)
    return released


def login_ms(session: Session) -> int:
    """Login time as scripts write it."""
    return round(session.login_at.timestamp() * 1000)


def server_of(ctx: Context, servers: dict[Shard, bytes], change: Held) -> bytes:
    """The identity of the server of this change; of all servers, for a change on all shards; b"" where not known."""
    if change.shard is not None:
        return servers.get(change.shard, b"")
    known = [servers.get(s, b"") for s in ctx.keys.shards]
    return b"".join(sorted(set(known))) if all(known) else b""


def unconfirmed(ctx: Context) -> int:
    """How many held changes too few replicas have, as far as is known."""
    return sum(not change.until for change in list(ctx.held.values()))


# -- changes that are made at first, and again by a round -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Authentication:
    """A visitor has authenticated again."""

    methods: str  #: as ``validation.authentication`` packs them
    began: int | str  #: when they began to sign in, ms; "": when the script ran
    at: int | str = ""  #: when the script ran, ms; "": it has not yet


def rotation(
    ctx: Context,
    s: Shard,
    uid: str,
    session_id: str,
    old: bytes,
    new: bytes,
    authentication: Authentication | None = None,
    *,
    again: bool = False,
) -> Call:
    """Replace a secret, and note an authentication. ``old`` and ``new`` are digests; both are empty where the site
    has session ids of its own. ``again``: a failover has lost it."""
    given = authentication or Authentication("", "")
    keys = (s.sessions, s.closing, s.meta, s.record(uid, session_id), s.events)
    return call_of(ROTATE_SECRET, keys, ctx.now, uid, session_id, old, new, given.methods, given.at, given.began,
                   ctx.events_cap, int(again))  # fmt: skip


@dataclass(frozen=True, slots=True)
class DemandRequest:
    """What staff write where they require a new sign-in of a user."""

    uid: str
    session_id: str  #: the one that staff named, for the audit; empty for all
    by: str
    reason: str
    message: str
    ticket: str

    def call(self, ctx: Context, s: Shard, session_ids: Iterable[str], at: int | str = "") -> Call:
        """Require it of these sessions. ``at``, ms: a failover has lost it."""
        ids = list(session_ids)
        message_id = digest(self.message) if self.message else ""
        keys = (s.sessions, s.closing, s.meta, s.events, s.audit, s.note(message_id),
                *(s.record(self.uid, session_id) for session_id in ids))  # fmt: skip
        return call_of(REQUIRE_SIGN_IN, keys, ctx.now, ctx.events_cap, ctx.audit_cap, self.uid, self.by, self.reason,
                       message_id, self.message, self.ticket, self.session_id, at, *ids)  # fmt: skip


def watermark_calls(
    ctx: Context, shards: Iterable[Shard], upto: str, by: str, note: str, message: str, call_id: str
) -> list[Call]:
    """Raise the watermark of these shards to ``upto``, ms. ``call_id``: "", or on the shard that writes the
    audit entry an id by which the script knows a call that is sent again."""
    note_id, message_id = digest(note), digest(message) if message else ""
    return [
        call_of(REVOKE_BEFORE, (s.meta, s.sessions, s.note(note_id), s.note(message_id), s.audit), ctx.now,
                ctx.audit_cap, upto, by, note_id, note, message_id, message, ctx.settings.keep_kicked, call_id)
        for s in shards
    ]  # fmt: skip


def rules_calls(ctx: Context, shards: Iterable[Shard], version: int, rules: Mapping[bytes, bytes]) -> list[Call]:
    """Copy the block rules to these shards; those with this version or a newer one keep what they have."""
    return [store_rules_call(ctx, s, version, rules, base=None, audit=None) for s in shards]


def store_rules_call(
    ctx: Context,
    s: Shard,
    version: int,
    rules: Mapping[bytes, bytes],
    *,
    base: int | None,
    audit: Sequence[str] | None,
) -> Call:
    """Store the block rules of a shard. base: only if this is its version; None: only if its version is older. audit:
    action, by, reason, message, ticket and outcome of the entry."""
    kinds = sorted({field.partition(b":")[0] for field in rules}, key=_narrowest_first)
    lookup = b" ".join(kinds)
    words = [word for pair in rules.items() for word in pair]
    return call_of(STORE_BLOCK_RULES, (s.block_rules, s.meta, s.audit), ctx.now, ctx.audit_cap, version,
                   "" if base is None else base, lookup, *(audit or ("",) * 6), *words)  # fmt: skip


def _narrowest_first(kind: bytes) -> tuple[int, bytes]:
    """If several rules match, the visitor gets the message of the smallest network."""
    bits = kind.partition(b"/")[2]
    return -int(bits) if bits.isdigit() else 1, kind
