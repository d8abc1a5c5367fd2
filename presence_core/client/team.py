"""What staff save, and which staff members have a person open."""

from __future__ import annotations

from presence_core.client.base import AsyncClient, Client, awaited
from presence_core.models import SavedItem, SavedKind, Viewer
from presence_core.operations.staff import saved_items, viewers


class TeamMethods(Client):
    def saved_items(self, kind: SavedKind, *, owner: str | None = None) -> list[SavedItem]:
        """The items that a staff member saved, by name, then those that are shared with everyone.

        kind: "view", "phrase" or "watch". owner: the staff member; None: only the shared items. Cost: O(items), one
        round trip; a list has at most 200 items and 131,072 bytes.
        """
        return self._run(saved_items.saved_items(self._ctx, kind, owner))

    def save_item(
        self,
        kind: SavedKind,
        name: str,
        text: str,
        *,
        by: str,
        shared: bool = False,
        instead_of: str | None = None,
    ) -> SavedItem:
        """Save an item, or replace the one of this name. Returns it as it is stored.

        kind: "view", "phrase" or "watch". name: 1-256 bytes; of a watched person the uid. text: at most 4,096 bytes.
        by: the staff member, whose item it is unless ``shared``. shared: for all staff; ``audit`` shows the change.
        instead_of: the former name, to rename an item.

        Raises InvalidArgument if the list is full (200 items, or 131,072 bytes). Of two concurrent calls with the same
        name the later wins. Cost: O(items of the list), one round trip.
        """
        return self._run(saved_items.save_item(self._ctx, kind, name, text, by, shared, instead_of))

    def remove_item(self, kind: SavedKind, name: str, *, by: str, shared: bool = False) -> bool:
        """Remove a saved item. False: there is none of this name. ``audit`` shows the removal of a shared item.

        by: the staff member, whose item it is unless ``shared``. Cost: O(items of the list), one round trip.
        """
        return self._run(saved_items.remove_item(self._ctx, kind, name, by, shared))

    def note_viewer(self, uid: str, *, by: str, closed: bool = False) -> list[Viewer]:
        """Note that a staff member has this user open. Returns the others who have, the earliest first.

        A note expires after 30 seconds: repeat the call while the user stays open. closed: the member has closed the
        user. At most 50 members are noted for a user. Cost: O(members), one round trip.
        """
        return self._run(viewers.note_viewer(self._ctx, uid, by, closed))


class AsyncTeamMethods(AsyncClient):
    saved_items = awaited(TeamMethods.saved_items)
    save_item = awaited(TeamMethods.save_item)
    remove_item = awaited(TeamMethods.remove_item)
    note_viewer = awaited(TeamMethods.note_viewer)
