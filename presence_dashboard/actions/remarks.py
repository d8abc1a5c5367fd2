"""Leave and remove remarks on a person."""

from __future__ import annotations

from typing import Final

from presence_core import Presence, Remark
from presence_dashboard import access

# Names in the audit, also of denials.
ADD: Final = "add_remark"
REMOVE: Final = "remove_remark"


def add(presence: Presence, uid: str, text: str) -> Remark:
    """Leave a remark. Raises InvalidArgument, Denied and SignedOut."""
    actor = access.require("remark", action=ADD, uid=uid)
    return presence.add_remark(uid, text, by=actor.name)


def remove(presence: Presence, uid: str, remark_id: str) -> bool:
    """Remove a remark, also one of a colleague. False if it is gone. Raises as ``add``."""
    actor = access.require("remark", action=REMOVE, uid=uid)
    return presence.remove_remark(uid, remark_id, by=actor.name)
