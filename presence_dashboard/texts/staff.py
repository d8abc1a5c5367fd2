"""The Staff page."""

from __future__ import annotations

from typing import Final

STAFF_SEARCH: Final = "Find a staff member"
STAFF_REMOVED: Final = "Include removed staff"
STAFF_ROLES_MEAN: Final = {
    "stats": "counts and charts, no people",
    "viewer": "sees people, cannot act",
    "support": "kicks, blocks, exports, and bulk kicks up to a limit",
    "admin": "everything, including block rules, repair, audit export and this page",
}
STAFF_ALT: Final = "Staff of this dashboard, by name"
STAFF_NO_ROLE: Final = "removed"
STAFF_YES: Final = "yes"
STAFF_NO: Final = "no"


def staff_since(zone: str) -> str:
    return f"Since ({zone})"


STAFF_SELECT_HINT: Final = "Tick a row to change a role, sign out a staff member or remove them."
STAFF_EMPTY_TITLE: Final = "No staff yet"
STAFF_EMPTY: Final = (
    "A dashboard that is open on this machine only needs no staff records. If staff sign in, add the first admin on "
    "the command line:"
)
STAFF_EMPTY_CODE: Final = "presence staff add dana@example.com --role admin"
STAFF_NO_MATCH: Final = "No staff match."
STAFF_ADD_HINT: Final = (
    "To add staff, run `presence staff add NAME --role support`. Staff of a proxy or OpenID provider are added at "
    "their first sign-in."
)

STAFF_SET: Final = "Change role"
STAFF_NEW_ROLE: Final = "New role"
STAFF_SIGN_OUT: Final = "Sign out everywhere"
STAFF_REMOVE: Final = "Remove …"
STAFF_REMOVE_EXPLAINED: Final = (
    "They lose access within 5 seconds, even if their identity provider or proxy still lets them in. Their actions "
    "stay in the audit log."
)
STAFF_REMOVE_CONFIRM: Final = "Remove from staff"


def staff_role(role: str) -> str:
    means = STAFF_ROLES_MEAN.get(role)
    return f"{role}: {means}" if means else role


def staff_sign_in(client: str, ip: str, seen: str) -> str:
    return " · ".join(part for part in (client, ip, f"last active {seen}") if part)


def staff_is_now(member: str, role: str) -> str:
    return f"{member} now has the role {role}."


def staff_removed(member: str) -> str:
    return f"{member} was removed from staff."


def staff_had_no_role(member: str) -> str:
    return f"{member} had already lost their role."


def staff_signed_out(member: str, count: int) -> str:
    if not count:
        return f"{member} was not signed in."
    return f"{member} was signed out. {count} sign-in{'' if count == 1 else 's'} ended."
