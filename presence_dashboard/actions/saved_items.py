"""Save and remove what staff keep: views, phrases and watched people, own or shared."""

from __future__ import annotations

from typing import Final

from presence_core import Presence, SavedItem, SavedKind
from presence_dashboard import access
from presence_dashboard.roles import Right

# Names in the audit of denials.
SAVE: Final = "save"
SHARE: Final = "share"


def save(
    presence: Presence, kind: SavedKind, name: str, text: str, *, shared: bool = False, instead_of: str | None = None
) -> SavedItem:
    """Save an item, or replace the one of this name. Raises InvalidArgument, Denied and SignedOut."""
    actor = access.require(right_to_change(shared), action=SHARE if shared else SAVE)
    return presence.save_item(kind, name, text, by=actor.name, shared=shared, instead_of=instead_of)


def remove(presence: Presence, kind: SavedKind, name: str, *, shared: bool = False) -> bool:
    """Remove an item. Raises as ``save``. False if there is none of this name."""
    actor = access.require(right_to_change(shared), action=SHARE if shared else SAVE)
    return presence.remove_item(kind, name, by=actor.name, shared=shared)


def right_to_change(shared: bool) -> Right:
    """Everyone who sees people keeps items of their own; what all staff see needs a right of its own."""
    return "share" if shared else "people"
