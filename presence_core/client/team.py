"""Who may work with the dashboard, and as what."""

from __future__ import annotations

from presence_core.client.base import AsyncClient, Client
from presence_core.models import StaffMember
from presence_core.operations import staff_records


class Team(Client):
    """Part of Presence."""

    def staff(self) -> list[StaffMember]:
        """Everybody who has a record, by name; ``role`` is None for those who were removed. Cost: O(records), one round
        trip."""
        return self._run(staff_records.staff(self._ctx))

    def staff_member(self, name: str) -> StaffMember | None:
        """The record of one; None where there is none. Cost: O(1), one round trip."""
        return self._run(staff_records.staff_member(self._ctx, name))

    def set_staff(self, name: str, role: str, *, by: str, force: bool = False) -> StaffMember:
        """Give somebody a role, new or another: "stats", "viewer", "support" or "admin". Answers the record that holds.

        name: 1-128 bytes, often an email; capitals make no difference. by: who does it. The last admin stays admin,
        under any race, but with ``force``. ``audit`` shows each change. Cost: O(records), one round trip.
        """
        return self._run(staff_records.set_staff(self._ctx, name, role, by, force))

    def seed_staff(self, name: str, role: str, *, by: str) -> StaffMember:
        """Give somebody their first role, as a claim at sign-in does. Where there is a record nothing changes, also
        where it says that they were removed: look at ``role`` of what is answered. Cost: O(1), one round trip."""
        return self._run(staff_records.seed_staff(self._ctx, name, role, by))

    def remove_staff(self, name: str, *, by: str, force: bool = False) -> bool:
        """Take somebody's role away; that they were removed stays on record, so that no claim seeds them again.

        False: they had none. Not for the last admin, but with ``force``. Cost: O(records), one round trip.
        """
        return self._run(staff_records.remove_staff(self._ctx, name, by, force))


class AsyncTeam(AsyncClient):
    """Part of AsyncPresence."""

    async def staff(self) -> list[StaffMember]:
        """See Presence.staff."""
        return await self._run(staff_records.staff(self._ctx))

    async def staff_member(self, name: str) -> StaffMember | None:
        """See Presence.staff_member."""
        return await self._run(staff_records.staff_member(self._ctx, name))

    async def set_staff(self, name: str, role: str, *, by: str, force: bool = False) -> StaffMember:
        """See Presence.set_staff."""
        return await self._run(staff_records.set_staff(self._ctx, name, role, by, force))

    async def seed_staff(self, name: str, role: str, *, by: str) -> StaffMember:
        """See Presence.seed_staff."""
        return await self._run(staff_records.seed_staff(self._ctx, name, role, by))

    async def remove_staff(self, name: str, *, by: str, force: bool = False) -> bool:
        """See Presence.remove_staff."""
        return await self._run(staff_records.remove_staff(self._ctx, name, by, force))
