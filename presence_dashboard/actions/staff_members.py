"""Staff of the dashboard: list them, add, change a role, reset a password, remove, sign out. For admins."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Literal

from presence_core import AuditFact, InvalidArgument, Page, Presence, PresenceError, Session, StaffMember, StaffRole
from presence_core.files.password_file import VARIABLE, PasswordFile, one_time_password
from presence_dashboard import access, drafts
from presence_dashboard.data.store import Store
from presence_dashboard.format import literal
from presence_dashboard.gate.staff_sessions import open_staff_sessions

PasswordState = Literal["own", "one-time", "expired", "none"]

SIGNED_OUT: Final = "signed out on the Staff page"
REMOVED: Final = "removed on the Staff page"
PASSWORD_RESET: Final = "password reset on the Staff page"

# Names in the audit of denials.
ADD: Final = "add staff"
SET_ROLE: Final = "set staff role"
RESET: Final = "reset staff password"
REMOVE: Final = "remove staff"
SIGN_OUT: Final = "sign staff out"

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StaffEntry:
    """A staff record, whether the staff member is signed in, and whether they have a password."""

    member: StaffMember
    is_signed_in: bool
    password: PasswordState | None = None  #: None: staff do not sign in with a password here


@dataclass(frozen=True, slots=True)
class StaffQuery:
    """Which staff members the page shows."""

    text: str = ""  #: anywhere in the name
    removed: bool = False  #: include removed staff


@dataclass(frozen=True, slots=True)
class NewPassword:
    """A one-time password, to be shown once."""

    member: str
    password: str = field(repr=False)
    until: datetime


@dataclass(frozen=True, slots=True)
class Removal:
    """What the removal of a staff member did."""

    had_role: bool
    is_complete: bool  #: also the password and the sign-ins are gone


def list_staff(store: Store, query: StaffQuery, limit: int, cursor: str | None) -> Page[StaffEntry]:
    """Staff members by name. There are some dozens, so all are read and a page is cut from them."""
    text = query.text.lower()  # as names are stored
    found = [member for member in store.presence.staff() if text in member.name and (query.removed or member.role)]
    first = int(cursor or 0)
    shown = found[first : first + limit]
    inside = open_staff_sessions().sessions.online_among([member.name for member in shown])
    file = password_file()
    rows = [StaffEntry(member, member.name in inside, _password_state(file, member)) for member in shown]
    after = str(first + limit) if first + limit < len(found) else None
    return Page(rows, after, len(found), True, len(found), datetime.now(UTC))


def sign_ins(name: str) -> list[Session]:
    """The live sign-ins of a staff member, newest first."""
    return open_staff_sessions().sessions.sessions(name)


# -- Passwords ---------------------------------------------------------------------------------------------------------


def password_file() -> PasswordFile | None:
    """The file with the passwords of staff; None where they sign in otherwise."""
    return PasswordFile.from_env(os.environ) if access.mode() in ("password", "open") else None


def passwords_are_read_only() -> bool:
    """Whether staff sign in with passwords that this dashboard cannot change."""
    try:
        file = password_file()
        if file is not None:
            file.check_writable()
    except InvalidArgument as error:
        _log.warning("%s", error)
        return True
    return False


def _password_state(file: PasswordFile | None, member: StaffMember) -> PasswordState | None:
    if file is None:
        return None
    try:
        stored = file.find(member.name)
    except InvalidArgument:  # the page says so above the list
        return None
    if stored is None:
        return "none"
    return "expired" if stored.has_expired else "one-time" if stored.is_one_time else "own"


@contextmanager
def _new_password(file: PasswordFile, name: str) -> Iterator[NewPassword]:
    """Store a one-time password while the body runs; if the body raises, the file is again as before."""
    password, valid_until = one_time_password()
    try:
        with file.storing(name, password, valid_until=valid_until):
            yield NewPassword(name, password, datetime.fromtimestamp(valid_until, UTC))
    except InvalidArgument as error:
        if error.field == VARIABLE:
            _log.warning("%s", error)
        raise


# -- Changes: each raises Denied, SignedOut, and PresenceError as the library's method ---------------------------------


def add(presence: Presence, name: str, role: StaffRole) -> NewPassword | None:
    """Add a staff member. Returns their one-time password; None where staff sign in otherwise.

    Role and password are stored both or not at all. Raises InvalidArgument if they have a role already.
    """
    actor, file = access.require_fresh("staff", action=ADD), password_file()
    if file is None:
        presence.add_staff(name, role, by=actor.name)
        return None
    known = presence.staff_member(name)
    if known is not None and known.role:
        raise InvalidArgument("name", "must be new: this person is on the staff already", "exists")
    with _new_password(file, name.lower()) as new:
        presence.add_staff(name, role, by=actor.name)
    return new


def set_role(presence: Presence, name: str, role: StaffRole) -> StaffMember:
    """Change a role. Raises InvalidArgument for the last admin."""
    actor = access.require_fresh("staff", action=SET_ROLE)
    return presence.set_staff(name, role, by=actor.name)


def reset_password(presence: Presence, name: str) -> NewPassword:
    """Replace the password of a staff member by a one-time password, and sign them out.

    Raises InvalidArgument for the actor: they would be signed out before they could read the password.
    """
    actor, file = access.require_fresh("staff", action=RESET), password_file()
    if file is None:
        raise InvalidArgument("password", "cannot be reset: staff do not sign in with a password here", "no_passwords")
    if name == actor.name:
        raise InvalidArgument("name", "must not be your own: another admin resets your password", "own_password")
    member = presence.staff_member(name)
    if member is None or member.role is None:
        raise InvalidArgument("name", "must have a role: add this person first", "no_role")
    with _new_password(file, name) as new:
        open_staff_sessions().sessions.kick(name, by=actor.name, reason=PASSWORD_RESET)
        presence.audit_note(by=actor.name, what="staff", facts=[AuditFact("password_given", {"name": name})])
    return new


def remove(presence: Presence, name: str) -> Removal:
    """Remove a staff member: role, own saved items, draft, password and sign-ins. Raises as ``set_role``.

    Without the role, a password or a sign-in gives no access, so the removal holds also if one of them is left.
    """
    actor = access.require_fresh("staff", action=REMOVE)
    had_role = presence.remove_staff(name, by=actor.name)
    drafts.drop_of(name)
    try:
        open_staff_sessions().sessions.kick(name, by=actor.name, reason=REMOVED)
        if (file := password_file()) is not None:
            file.remove(name)
    except PresenceError as error:
        _log.warning("%s was removed from staff, but not completely: %s", literal(name), error)
        return Removal(had_role, False)
    return Removal(had_role, True)


def sign_out(presence: Presence, name: str) -> int:
    """End all sign-ins of a staff member and audit it. Returns their number. They can sign in again."""
    actor = access.require("staff", action=SIGN_OUT)
    count = open_staff_sessions().sessions.kick(name, by=actor.name, reason=SIGNED_OUT).count
    presence.audit_note(by=actor.name, what="staff", facts=[AuditFact("signed_out", {"name": name, "count": count})])
    return count
