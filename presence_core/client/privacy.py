"""What a person may ask for: what is kept of them, and that it goes."""

from __future__ import annotations

from typing import Any

from presence_core.client.base import AsyncClient, Client
from presence_core.models import ForgetReport
from presence_core.operations import exporting, forgetting


class Privacy(Client):
    """Part of Presence."""

    def forget(self, uid: str, *, by: str, reason: str) -> ForgetReport:
        """Take every trace of a person out of every key; what staff did to them stays under a pseudonym.

        Live sessions end first, as kicked; a block goes, too. by: who does it, 1-256 bytes. reason: for staff, 1-500
        characters. Where it breaks off, call it again: it finds what is left. What it cannot reach: docs/privacy.md.
        Cost: O(N), in many small steps: the lists of the person's shard and the audit of all are looked through.
        """
        return self._run(forgetting.forget(self._ctx, uid, by, reason))

    def export_person(self, uid: str) -> dict[str, Any]:
        """What is kept of a person, ready for JSON: sessions, ended, person, block, audit, events.

        At most 10,000 entries of each kind, of ended sessions the latest 100; ``cut`` names the kinds that have more.
        Cost: O(audit + events kept), in steps of a thousand.
        """
        return self._run(exporting.export_person(self._ctx, uid))


class AsyncPrivacy(AsyncClient):
    """Part of AsyncPresence."""

    async def forget(self, uid: str, *, by: str, reason: str) -> ForgetReport:
        """See Presence.forget."""
        return await self._run(forgetting.forget(self._ctx, uid, by, reason))

    async def export_person(self, uid: str) -> dict[str, Any]:
        """See Presence.export_person."""
        return await self._run(exporting.export_person(self._ctx, uid))
