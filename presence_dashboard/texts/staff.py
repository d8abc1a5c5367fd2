"""The Staff page."""

from __future__ import annotations

from typing import Final

from presence_dashboard.language import Sentence, ngettext
from presence_dashboard.language import gettext as _

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
STAFF_SELECT_HINT: Final = "Click a row to change a role, reset a password, sign out a staff member or remove them."
STAFF_EMPTY_TITLE: Final = "No staff yet"
STAFF_EMPTY: Final = (
    "A dashboard that is open on this machine only needs no staff records. Before staff sign in, add the first admin "
    "here, or on the command line:"
)
STAFF_EMPTY_CODE: Final = "presence staff add dana@example.com --role admin"
STAFF_NO_MATCH: Final = "No staff match."
STAFF_BY_PROVIDER: Final = (
    "Staff sign in with your proxy or OpenID provider. They are added at their first sign-in, or here before it."
)
STAFF_READ_ONLY: Final = (
    "Passwords cannot be changed here: the password file is read-only for this dashboard. Add staff and reset "
    "passwords on the command line, with `presence staff add` and `presence staff password`."
)

# -- Add a member, and a one-time password -----------------------------------------------------------------------------

STAFF_ADD: Final = "Add staff"
STAFF_ADD_CONFIRM: Final = "Add to staff"
STAFF_NAME_FIELD: Final = "Name or email address"
STAFF_NAME_MISSING: Final = "Type a name."
STAFF_ROLE_MISSING: Final = "Choose a role."
STAFF_ADD_PASSWORD: Final = (
    "The next step shows a one-time password. With it they choose a password of their own at their first sign-in."
)
STAFF_RESET: Final = "Reset password …"
STAFF_RESET_EXPLAINED: Final = (
    "Their password ends now, and they are signed out everywhere. You get a one-time password for them. With it they "
    "choose another password at their next sign-in."
)
STAFF_RESET_OWN: Final = "Ask another admin to reset your password."
STAFF_RESET_CONFIRM: Final = "Reset the password"
STAFF_PASSWORD_TITLE: Final = "One-time password"
STAFF_PASSWORD_ONCE: Final = "It is shown only now. If it gets lost, reset the password."
STAFF_PASSWORD_DONE: Final = "Done"
LABEL_SIGN_IN_AT: Final = "Sign in at"
STAFF_PASSWORDS: Final = {
    "own": "chosen",
    "one-time": "one-time, not used yet",
    "expired": "one-time, expired",
    "none": "no password",
}
"""State of a password → words."""
staff_added: Final = Sentence("{member} is now on the staff, with the role {role}.")
staff_reset: Final = Sentence("The password of {member} was reset.")
staff_password_until: Final = Sentence(
    "This one-time password is valid until {until}. Send it to them over a channel that only they can read."
)

# -- Change a member ---------------------------------------------------------------------------------------------------

STAFF_SET: Final = "Change role"
STAFF_NEW_ROLE: Final = "New role"
STAFF_SIGN_OUT: Final = "Sign out everywhere"
STAFF_REMOVE: Final = "Remove from staff …"
STAFF_REMOVE_EXPLAINED: Final = (
    "They lose access within 5 seconds, even if their identity provider or proxy still lets them in. Their actions "
    "stay in the audit log. Their saved views, phrases and watch list are deleted."
)
STAFF_REMOVE_CONFIRM: Final = "Remove from staff"


def staff_role(role: str) -> str:
    means = STAFF_ROLES_MEAN.get(role)
    return f"{role}: {_(means)}" if means else role


def staff_sign_in(client: str, ip: str, seen: str) -> str:
    return " · ".join(part for part in (client, ip, _("last active {seen}").format(seen=seen)) if part)


staff_is_now: Final = Sentence("{member} now has the role {role}.")
staff_removed: Final = Sentence("{member} was removed from staff.")
staff_removed_in_part: Final = Sentence(
    "{member} was removed from staff and has no access. Their password or their sign-in could not be deleted. "
    "Tell your administrator: the dashboard's log has the details."
)
staff_had_no_role: Final = Sentence("{member} had already lost their role.")


def staff_signed_out(member: str, count: int) -> str:
    if not count:
        return _("{member} was not signed in.").format(member=member)
    return ngettext(
        "{member} was signed out. {count} sign-in ended.", "{member} was signed out. {count} sign-ins ended.", count
    ).format(member=member, count=count)
