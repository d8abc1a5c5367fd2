"""Who works with the dashboard: read, and what an admin does about it, as data in and out. No page is drawn here."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from presence_core import Page, Presence, Session, StaffMember
from presence_dashboard import access
from presence_dashboard.gate.desk import open_desk
from presence_dashboard.store import Store

SIGNED_OUT: Final = "signed out on the Staff page"

# What is refused, as the audit names it.
SET_ROLE: Final = "set staff role"
REMOVE: Final = "remove staff"
SIGN_OUT: Final = "sign staff out"


@dataclass(frozen=True, slots=True)
class Colleague:
    """A record, and whether its owner is signed in."""

    member: StaffMember
    is_in: bool


@dataclass(frozen=True, slots=True)
class Wanted:
    """Whom the page shows."""

    text: str = ""  #: somewhere in the name
    removed: bool = False  #: also those who are on the staff no longer


def colleagues(store: Store, wanted: Wanted, limit: int, cursor: str | None) -> Page[Colleague]:
    """By name. There are some dozens of them, so one read is a page of any size."""
    text = wanted.text.casefold()
    found = [one for one in store.presence.staff() if text in one.name and (wanted.removed or one.role)]
    first = int(cursor or 0)
    shown = found[first : first + limit]
    inside = open_desk().sessions.online_among([one.name for one in shown])
    rows = [Colleague(one, one.name in inside) for one in shown]
    after = str(first + limit) if first + limit < len(found) else None
    return Page(rows, after, len(found), True, len(found), datetime.now(UTC))


def sign_ins(name: str) -> list[Session]:
    """Where somebody is signed in, newest first."""
    return open_desk().sessions.sessions(name)


def set_role(presence: Presence, name: str, role: str) -> StaffMember:
    """Give somebody another role. Raises InvalidArgument for the last admin, Denied and SignedOut."""
    actor = access.require("staff", what=SET_ROLE)
    return presence.set_staff(name, role, by=actor.name)


def remove(presence: Presence, name: str) -> bool:
    """Take somebody's role away. Raises as ``set_role``; False: they had none."""
    actor = access.require("staff", what=REMOVE)
    return presence.remove_staff(name, by=actor.name)


def sign_out(presence: Presence, name: str) -> int:
    """End all sign-ins of somebody, and write that down; they may sign in again. Answers how many there were."""
    actor = access.require("staff", what=SIGN_OUT)
    count = open_desk().sessions.kick(name, by=actor.name, reason=SIGNED_OUT).count
    presence.audit_note(by=actor.name, what="staff", outcome=f"{name} was signed out, {count} sign-ins ended")
    return count
