"""What staff do to others' sessions."""

from __future__ import annotations

from collections.abc import Iterable

from presence_core.client.base import AsyncClient, Client
from presence_core.models import KickResult
from presence_core.operations import ending


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
    ) -> KickResult:
        """End one session of a user, or all of them but ``keep``. Once this has returned, no request of theirs passes.

        by: who does it, 1-256 bytes. reason: for staff, 1-500 characters. message: for the visitor. ticket: up to 64
        bytes. A session that was over before is in ``already_ended``, with why and by whom where that is still known.
        Cost: O(S·log N), one round trip for one session, three for all.
        """
        return self._run(ending.kick(self._ctx, uid, session_id, by, reason, message, ticket, keep))


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
    ) -> KickResult:
        """See Presence.kick."""
        return await self._run(ending.kick(self._ctx, uid, session_id, by, reason, message, ticket, keep))
