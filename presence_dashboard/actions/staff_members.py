"""Staff of the dashboard: list them, change a role, remove, sign out. For admins."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from presence_core import Page, Presence, Session, StaffMember, StaffRole
from presence_dashboard import access
from presence_dashboard.data.store import Store
from presence_dashboard.gate.staff_sessions import open_staff_sessions

SIGNED_OUT: Final = "signed out on the Staff page"

# Names in the audit of denials.
SET_ROLE: Final = "set staff role"
REMOVE: Final = "remove staff"
SIGN_OUT: Final = "sign staff out"


@dataclass(frozen=True, slots=True)
class StaffEntry:
    """A staff record, and whether the staff member is signed in."""

    member: StaffMember
    is_signed_in: bool


@dataclass(frozen=True, slots=True)
class StaffQuery:
    """Which staff members the page shows."""

    text: str = ""  #: anywhere in the name
    removed: bool = False  #: include removed staff


def list_staff(store: Store, query: StaffQuery, limit: int, cursor: str | None) -> Page[StaffEntry]:
    """Staff members by name. There are some dozens, so all are read and a page is cut from them."""
    text = query.text.casefold()
    found = [member for member in store.presence.staff() if text in member.name and (query.removed or member.role)]
    first = int(cursor or 0)
    shown = found[first : first + limit]
    inside = open_staff_sessions().sessions.online_among([member.name for member in shown])
    rows = [StaffEntry(member, member.name in inside) for member in shown]
    after = str(first + limit) if first + limit < len(found) else None
    return Page(rows, after, len(found), True, len(found), datetime.now(UTC))


def sign_ins(name: str) -> list[Session]:
    """The live sign-ins of a staff member, newest first."""
    return open_staff_sessions().sessions.sessions(name)


def set_role(presence: Presence, name: str, role: StaffRole) -> StaffMember:
    """Change a role. Raises InvalidArgument for the last admin, Denied and SignedOut."""
    actor = access.require("staff", action=SET_ROLE)
    return presence.set_staff(name, role, by=actor.name)


def remove(presence: Presence, name: str) -> bool:
    """Remove a staff member. Raises as ``set_role``. False if they had no role."""
    actor = access.require("staff", action=REMOVE)
    return presence.remove_staff(name, by=actor.name)


def sign_out(presence: Presence, name: str) -> int:
    """End all sign-ins of a staff member and audit it. Returns their number. They can sign in again."""
    actor = access.require("staff", action=SIGN_OUT)
    count = open_staff_sessions().sessions.kick(name, by=actor.name, reason=SIGNED_OUT).count
    presence.audit_note(by=actor.name, what="staff", outcome=f"{name} was signed out, {count} sign-ins ended")
    return count
