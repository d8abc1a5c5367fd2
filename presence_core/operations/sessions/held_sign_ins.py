"""Secrets that were replaced and sign-ins that staff require, which the client holds: see ``durability``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from presence_core.keyspace import Shard, digest
from presence_core.models import Session, as_ms, login_ms
from presence_core.operations.context import Context, FoundSession
from presence_core.operations.durability.held_changes import Replicas, hold
from presence_core.operations.sessions.held_ends import HeldOfSessions
from presence_core.scripts.calls import Call, call_of
from presence_core.scripts.sessions import REQUIRE_SIGN_IN, ROTATE_SECRET

_MAX_SECRETS: Final = 16  # of one session, replaced one after the other while they were held


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
    nonce: bytes = b"",
    *,
    again: bool = False,
) -> Call:
    """Replace a secret, and note an authentication. ``old`` and ``new`` are digests; both are empty where the site
    has session ids of its own. ``nonce``: the new secret was made with it, and the old one gets the grace. ``again``: a
    failover has lost it."""
    given = authentication or Authentication("", "")
    keys = (s.sessions, s.closing, s.meta, s.record(uid, session_id), s.events,
            *((s.rotated(uid, session_id),) if nonce else ()))  # fmt: skip
    return call_of(ROTATE_SECRET, keys, given_now=ctx.now, uid=uid, sid=session_id, old_digest=old, new_digest=new,
                   methods=given.methods, given_at=given.at, began=given.began, max_events=ctx.events_cap,
                   is_again=int(again), grace=ctx.settings.rotate_grace * 1000, nonce=nonce)  # fmt: skip


@dataclass(slots=True, eq=False)
class HeldSecret(HeldOfSessions):
    """A session's secret that was replaced; only digests."""

    session_id: str
    old: tuple[bytes, ...]
    new: bytes
    authentication: Authentication | None
    nonce: bytes  #: by which the new one follows from the last old one; empty without a grace

    def session_ids(self) -> Sequence[str]:
        return [self.session_id]

    def repair(self, ctx: Context, s: Shard, live: FoundSession) -> list[Call]:
        if live.row.secret not in self.old:
            return []
        secret, nonce = live.row.secret, self.nonce if live.row.secret == self.old[-1] else b""
        return [rotation(ctx, s, live.uid, live.session_id, secret, self.new, self.authentication, nonce, again=True)]


def hold_secret(
    ctx: Context,
    replicas: Replicas,
    uid: str,
    session_id: str,
    old: bytes,
    new: bytes,
    authentication: Authentication | None = None,
    nonce: bytes = b"",
) -> None:
    name, earlier = ("secret", uid, session_id), tuple[bytes, ...]()
    before = ctx.held.get(name)
    if isinstance(before, HeldSecret) and before.new == new:
        return hold(ctx, replicas, name, before)  # for a follower of a caller in this process
    if isinstance(before, HeldSecret) and before.new == old:
        earlier, authentication = before.old, authentication or before.authentication
    olds = (*earlier, old)[-_MAX_SECRETS:]
    return hold(ctx, replicas, name, HeldSecret(ctx.shard(uid), uid, session_id, olds, new, authentication, nonce))


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
        named = REQUIRE_SIGN_IN.keys(sessions=s.sessions, closing=s.closing, meta=s.meta, events=s.events,
                                     audit=s.audit, message_key=s.note(message_id))  # fmt: skip
        keys = (*named, *(s.record(self.uid, session_id) for session_id in ids))
        return call_of(REQUIRE_SIGN_IN, keys, *ids, given_now=ctx.now, max_events=ctx.events_cap,
                       max_audit=ctx.audit_cap, uid=self.uid, by=self.by, reason=self.reason, message_id=message_id,
                       message=self.message, ticket=self.ticket, session=self.session_id, given_at=at)  # fmt: skip


@dataclass(slots=True, eq=False)
class HeldDemand(HeldOfSessions):
    """A sign-in that staff require of these sessions."""

    request: DemandRequest
    ids: tuple[str, ...]
    at: int  #: when it was required, ms
    upto: int  #: they began by then, ms; one that began later is another session

    def session_ids(self) -> Sequence[str]:
        return self.ids

    def repair(self, ctx: Context, s: Shard, live: FoundSession) -> list[Call]:
        return [self.request.call(ctx, s, [live.session_id], self.at)] if self._is_missing(live.session()) else []

    def _is_missing(self, session: Session) -> bool:
        """Whether a failover has lost that this session must sign in again, and its visitor has not done so since."""
        login, authenticated = login_ms(session), as_ms(session.authenticated_at)
        demanded = session.sign_in_required_at
        has_demand = demanded is not None and as_ms(demanded) >= self.at
        return not has_demand and login <= self.upto and (authenticated <= self.at or authenticated == login)


def hold_demand(ctx: Context, replicas: Replicas, request: DemandRequest, at: int, logins: Mapping[str, int]) -> None:
    """Hold a required sign-in. ``logins``: session id to login time, ms."""
    uid, ids = request.uid, tuple(logins)
    if ids:
        change = HeldDemand(ctx.shard(uid), uid, request, ids, at, max(at, *logins.values()))
        hold(ctx, replicas, ("sign_in", uid, *sorted(ids)), change)
