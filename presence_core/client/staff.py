"""What staff do to others' sessions."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from presence_core.client.base import AsyncClient, Client
from presence_core.models import AuditEntry, Block, Ended, KickResult, Page
from presence_core.operations import audit, blocks, ended, ending


class Staff(Client):
    """Part of Presence."""

    def kick(
        self,
        uid: str,
        session_id: str | None = None,
        *,
        by: str,
        reason: str,
        message: str | None = None,
        ticket: str | None = None,
        keep: Iterable[str] = (),
        block_for: int | None = None,
    ) -> KickResult:
        """End one session of a user, or all of them but ``keep``. Once this has returned, no request of theirs passes.

        by: who does it, 1-256 bytes. reason: for staff, 1-500 characters. message: for the visitor. ticket: up to 64
        bytes. block_for: seconds for which the user may not log in again, in the same step; ``block`` says what comes
        of one that there is, and ``.block`` what holds now. A session that was over
        before is in ``already_ended``, with why and by whom where that is still known. ``confirmed`` is False where too
        few replicas have it (``Settings.confirm_replicas``): this client applies it again until they do.
        Cost: O(S·log N), one round trip for one session, three for all.
        """
        return self._run(ending.kick(self._ctx, uid, session_id, by, reason, message, ticket, keep, block_for))

    def revoke_before(
        self, at: datetime | float | None = None, *, by: str, reason: str, message: str | None = None
    ) -> int:
        """Sign everybody out: each session that began before ``at`` (an aware datetime or Unix seconds; by default now)
        is dead to every reader once this has returned. Answers how many were in the list and not yet out.

        "Now" has every session that is there: those of this millisecond, and those whose login time is ahead of the
        clock because a clock was set back. A login after this lives, in the same millisecond too. An ``at`` in the
        future is an InvalidArgument; up to a minute ahead counts as now, for the caller's clock.

        It is a watermark that only rises, so it may be told again, as after a restore from an old snapshot. Sweeps take
        the sessions off the lists as kicked, cause ``"revoked"``; until then ``counts()`` says ``draining``, and where
        it is told again the later one's reason stands for all that are left. Logins go on. Cost: O(P), two round trips.
        """
        return self._run(ending.revoke_before(self._ctx, at, by, reason, message))

    def block(
        self,
        uid: str,
        *,
        by: str,
        reason: str,
        message: str | None = None,
        duration: int | None = None,
        until: datetime | float | None = None,
        ticket: str | None = None,
        shorten: bool = False,
    ) -> Block:
        """Let a user not log in: once this has returned, no login of theirs begins. Live sessions go on: see kick.

        by: who does it, 1-256 bytes. reason: for staff, 1-500 characters. message: for the user, who reads it in the
        LoginRefused. duration: whole seconds, 1…10 years; or until: an aware datetime or Unix seconds; neither: until
        unblocked. ticket: up to 64 bytes. A block that there is gets no shorter and loses no ticket: the one that ends
        later stays, with its reason, message and ``by``; of equal ends the newer. The newest 10 tickets are kept.
        shorten: what is given here holds, also where it ends sooner; tickets stay. Answers the block as it is now.
        Cost: O(log N), one round trip.
        """
        return self._run(blocks.block(self._ctx, uid, by, reason, message, duration, ticket, until, shorten))

    def unblock(self, uid: str, *, by: str, reason: str) -> bool:
        """Let a user log in again. False: was not blocked; it is written down all the same. Cost: one round trip."""
        return self._run(blocks.unblock(self._ctx, uid, by, reason))

    def blocked(self, uid: str) -> Block | None:
        """Why this user may not log in, and until when; None when they may. Cost: O(1), one round trip."""
        return self._run(blocks.blocked(self._ctx, uid))

    def blocked_among(self, uids: Iterable[str]) -> dict[str, Block]:
        """Those of these users who may not log in, with their blocks. Cost: O(n), one round trip.

        A key that holds what we never wrote counts as no block here; ``blocked`` raises CorruptData for it.
        """
        return self._run(blocks.blocked_among(self._ctx, uids))

    def blocks(self, *, limit: int = 50, cursor: str | None = None) -> Page[Block]:
        """Who may not log in, the latest blocked first; ``limit`` is 1…1000.

        While others are blocked and unblocked none is shown twice, and none that was blocked throughout is missed.
        ``total`` may count blocks whose time is over until the last page. Cost: O(P·log N + limit), two round trips.
        """
        return self._run(blocks.blocks(self._ctx, limit, cursor))

    def audit(
        self,
        *,
        uid: str | None = None,
        by: str | None = None,
        since: datetime | float | None = None,
        until: datetime | float | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[AuditEntry]:
        """What staff did, and tried but may not do, newest first: of whom, by whom, from ``since`` to ``until``.

        Times are aware datetimes or Unix seconds; ``limit`` is 1…1000. One call looks at 5,000 entries: a page may be
        short and still have a ``next_cursor``, which belongs to these arguments. ``total`` without any of them is
        exact; else it counts what the pages so far have shown, and is exact on the last. Denied attempts of one hour by
        one person are one entry, with their ``count``. Cost: O(P + entries), mostly two round trips.
        """
        return self._run(audit.audit(self._ctx, uid, by, since, until, limit, cursor))

    def denied(self, *, by: str, what: str, uid: str | None = None, reason: str | None = None) -> None:
        """Write down that a member of staff tried what their role does not allow. ``audit`` shows it.

        what: the act, 1-64 bytes, such as "kick". Counted by person, act and hour (UTC), with the latest uid and
        reason, so that a flood leaves a handful of rows: at most 201 an hour and 1,000 or so in all. Cost: O(1), one
        round trip; O(1,000) for the first of its kind in an hour.
        """
        self._run(audit.denied(self._ctx, by, what, uid, reason))

    def audit_note(
        self, *, by: str, what: str, outcome: str | None = None, uid: str | None = None, reason: str | None = None
    ) -> None:
        """Write down that staff did something that no other call writes down, such as an export. ``audit`` shows it.

        what: the act, 1-64 bytes. outcome: what came of it, in words, 1-500 characters; reason likewise. uid: whom it
        was about, where it was one person. Told twice, it stands there twice. Cost: O(1), one round trip.
        """
        self._run(audit.note(self._ctx, by, what, uid, reason, outcome))

    def ended(
        self,
        uid: str | None = None,
        *,
        reason: str | None = None,
        by: str | None = None,
        since: datetime | float | None = None,
        until: datetime | float | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[Ended]:
        """Why sessions are over, everybody's or one user's, the latest end first, as far as that is kept.

        reason: "logout", "expired", "kicked" or "replaced". by: who ended it. From ``since`` on, before ``until``:
        aware datetimes or Unix seconds. ``limit`` is 1…1000. One call looks at 5,000 ends: with ``reason`` or ``by`` a
        page may be short and still have a ``next_cursor``, which belongs to these arguments. ``total`` is exact on the
        last page; before, it may count ends that are no longer kept or, with ``reason`` or ``by``, only those shown so
        far. Of one user the latest 100 are listed. Where there were more, or more than ``Settings.max_ended`` in all,
        ``complete_since`` of the page says from when on none is missing. Cost: O(P·log N + ends looked at), two to four
        round trips a page.
        """
        return self._run(ended.ended(self._ctx, uid, reason, by, since, until, limit, cursor))


class AsyncStaff(AsyncClient):
    """Part of AsyncPresence."""

    async def kick(
        self,
        uid: str,
        session_id: str | None = None,
        *,
        by: str,
        reason: str,
        message: str | None = None,
        ticket: str | None = None,
        keep: Iterable[str] = (),
        block_for: int | None = None,
    ) -> KickResult:
        """See Presence.kick."""
        return await self._run(ending.kick(self._ctx, uid, session_id, by, reason, message, ticket, keep, block_for))

    async def revoke_before(
        self, at: datetime | float | None = None, *, by: str, reason: str, message: str | None = None
    ) -> int:
        """See Presence.revoke_before."""
        return await self._run(ending.revoke_before(self._ctx, at, by, reason, message))

    async def block(
        self,
        uid: str,
        *,
        by: str,
        reason: str,
        message: str | None = None,
        duration: int | None = None,
        until: datetime | float | None = None,
        ticket: str | None = None,
        shorten: bool = False,
    ) -> Block:
        """See Presence.block."""
        return await self._run(blocks.block(self._ctx, uid, by, reason, message, duration, ticket, until, shorten))

    async def unblock(self, uid: str, *, by: str, reason: str) -> bool:
        """See Presence.unblock."""
        return await self._run(blocks.unblock(self._ctx, uid, by, reason))

    async def blocked(self, uid: str) -> Block | None:
        """See Presence.blocked."""
        return await self._run(blocks.blocked(self._ctx, uid))

    async def blocked_among(self, uids: Iterable[str]) -> dict[str, Block]:
        """See Presence.blocked_among."""
        return await self._run(blocks.blocked_among(self._ctx, uids))

    async def blocks(self, *, limit: int = 50, cursor: str | None = None) -> Page[Block]:
        """See Presence.blocks."""
        return await self._run(blocks.blocks(self._ctx, limit, cursor))

    async def audit(
        self,
        *,
        uid: str | None = None,
        by: str | None = None,
        since: datetime | float | None = None,
        until: datetime | float | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[AuditEntry]:
        """See Presence.audit."""
        return await self._run(audit.audit(self._ctx, uid, by, since, until, limit, cursor))

    async def denied(self, *, by: str, what: str, uid: str | None = None, reason: str | None = None) -> None:
        """See Presence.denied."""
        await self._run(audit.denied(self._ctx, by, what, uid, reason))

    async def audit_note(
        self, *, by: str, what: str, outcome: str | None = None, uid: str | None = None, reason: str | None = None
    ) -> None:
        """See Presence.audit_note."""
        await self._run(audit.note(self._ctx, by, what, uid, reason, outcome))

    async def ended(
        self,
        uid: str | None = None,
        *,
        reason: str | None = None,
        by: str | None = None,
        since: datetime | float | None = None,
        until: datetime | float | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[Ended]:
        """See Presence.ended."""
        return await self._run(ended.ended(self._ctx, uid, reason, by, since, until, limit, cursor))
