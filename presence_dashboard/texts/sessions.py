"""The Sessions page: search, filters, the list, its empty states and the export."""

from __future__ import annotations

from typing import Final

from presence_dashboard.language import Counted, Sentence, ngettext
from presence_dashboard.language import gettext as _

# -- Search and filters ------------------------------------------------------------------------------------------------

SEARCH: Final = "Search"
SEARCH_HINT: Final = "Name, email, phone, user ID, IP or session ID"
OPEN_SINGLE: Final = "Open the only person found"
FACET_LABELS: Final = {
    "device": "Device", "app": "App", "app_version": "App version", "browser": "Browser", "os": "System",
    "country": "Country", "network": "Provider",
}  # fmt: skip
FACET_SCOPE: Final = "Counts include everyone online."
FACET_NONE: Final = "No live session has a value."
facet_value: Final = Sentence("{value} · {count}")
facet_most: Final = Sentence("The {shown} most frequent values of {known}.")


def filters_menu(count: int) -> str:
    return _("Filters ({count})").format(count=count) if count else _("Filters")


CHIP_HELP: Final = "Remove this filter"
CHIP_INSIDE: Final = "Inside names"
CLEAR_FILTERS: Final = "Clear all"
idle_malformed: Final = Sentence("Use whole seconds, up to {most}.")
seen_malformed: Final = Sentence("Use whole seconds, from 1 to {most}.")
METHOD_MALFORMED: Final = "Use names of sign-in methods, such as pwd, with commas between them."
MFA_MALFORMED: Final = "Use yes or no."
VERSION_MALFORMED: Final = "Use a version that begins with a number, such as 2.10."
flag_malformed: Final = Sentence("Use one of {flags}.")
SORT_MALFORMED: Final = "Use login or last_seen."

# -- A link with a wrong filter ----------------------------------------------------------------------------------------

LINK_TITLE: Final = "This link has a filter that does not work"
LINK_REFUSED: Final = "No sessions are listed, because the list would not match the link."
LINK_INSIDE: Final = "It must match the text in the search box."
LINK_SHOW_ALL: Final = "Show everyone"
link_unknown: Final = Sentence("{name} is not a filter of this list.")
link_twice: Final = Sentence("{name} appears more than once.")
link_empty: Final = Sentence("{name} has no value.")


def link_value(name: str, rule: str) -> str:
    return f"{_('{name} cannot have this value.').format(name=name)} {rule}".strip()


def link_remove(count: int) -> str:
    return ngettext("Remove this filter", "Remove these filters", count)


# -- Saved views -------------------------------------------------------------------------------------------------------

VIEWS_MENU: Final = "Views"
VIEWS_OWN: Final = "Your views, the last used first"
VIEWS_SHARED: Final = "Shared with everyone"
VIEWS_NONE: Final = "No views yet. A view is a filter and columns under a name."
VIEW_NAME: Final = "Save this list as a view"
VIEW_NAME_HELP: Final = "Keeps the search, the filters and the columns, not the sessions. An existing name is replaced."
VIEW_NAME_MISSING: Final = "Give the view a name."
VIEW_SHARE: Final = "Share with everyone"
VIEW_SAVE: Final = "Save view"
VIEW_RENAME: Final = "Rename"
VIEW_DELETE: Final = "Delete"
VIEW_DAMAGED: Final = "This view cannot be opened, because its stored filter is damaged. Delete it."
view_new_name: Final = Sentence("New name for {old}")


def view_saved(view: str, shared: bool) -> str:
    return (_("View {view} saved for everyone.") if shared else _("View {view} saved.")).format(view=view)


view_deleted: Final = Sentence("View {view} deleted.")
view_unknown: Final = Sentence("There is no view {view}, or it is damaged. Someone may have renamed or deleted it.")
IDLE_FILTER: Final = "Idle"
idle_for: Final = Sentence("{length} or more")
seen_within: Final = Sentence("{length} ago or less")
METHOD_FILTER: Final = "Signed in with"
METHOD_WORDS: Final = {
    "pwd": "Password", "otp": "One-time code", "sms": "Text message", "hwk": "Security key",
}  # fmt: skip
METHOD_TYPED: Final = "Other method"
MFA_FILTER: Final = "Second factor"
MFA_WORDS: Final = {"yes": "With a second factor", "no": "Without a second factor"}
BELOW_FILTER: Final = "App version below"
VERSION_CODE: Final = "2.10"
COLUMNS_MENU: Final = "Columns"
COLUMNS_LABEL: Final = "Columns to show, in this order"

# -- The list ----------------------------------------------------------------------------------------------------------

REFRESH_HELP: Final = "Read this page of the list again. New rows come only when you refresh."
newer: Final = Counted("{shown} newer session – refresh", "{shown} newer sessions – refresh")
logins_since: Final = Counted("{shown} new login – refresh", "{shown} new logins – refresh")


def rows_as_of(clock: str, age: str | None, newer_elsewhere: str | None) -> str:
    if age:
        read = _("List as of {clock}, {age} ago").format(clock=clock, age=age)
    else:
        read = _("List as of {clock}").format(clock=clock)
    if not newer_elsewhere:
        return read
    count = 1 if newer_elsewhere == "1" else 2
    new = ngettext("{shown} new login since then", "{shown} new logins since then", count)
    return f"{read} · {new.format(shown=newer_elsewhere)}"


TABLE_LABEL: Final = "Live sessions, newest login first"
TABLE_LABEL_LAST_ACTIVE: Final = "Live sessions, last active first"
BACK_TO_LOGIN: Final = "Back to newest login first"
BACK_TO_LAST_ACTIVE: Final = "Back to last active first"
NAME_HELP: Final = "Click a name to open the person."
EXPIRES_HELP: Final = "When the session ends automatically if it is not used."
IP_HELP: Final = "The address at login, or the latest one."


def browser_on(browser: str | None, system: str | None) -> str:
    if browser and system:
        return _("{browser} on {system}").format(browser=browser, system=system)
    return browser or system or ""


ROW_GONE: Final = "This session is no longer on the page. Nothing was done."
COLUMN_STATUS: Final = "Status"


def kick_selected(count: int) -> str:
    return _("Kick selected ({count})").format(count=count) if count else _("Kick selected")


def kick_all_of(user: str | None) -> str:
    return _("Kick all sessions of {user}").format(user=user) if user else _("Kick all sessions of a user")


SELECT_HINT: Final = "Tick rows to act on several sessions. Keyboard: arrows, Space, K, Enter."
SELECT_ONE_PERSON: Final = "Tick rows of one user only."
SELECT_NONE: Final = "Clear the selection"
select_most: Final = Sentence("At most {most} sessions can be selected. Use **Kick all** for more.")


def selected_hint(count: int, users: int, elsewhere: int, ended: int) -> str:
    if elsewhere:
        chosen = _("{count} selected, {elsewhere} on other pages").format(count=count, elsewhere=elsewhere)
    else:
        chosen = _("{count} selected").format(count=count)
    parts = [chosen, ngettext("{count} user", "{count} users", users).format(count=users)]
    if ended:
        parts.append(ngettext("{count} more has ended", "{count} more have ended", ended).format(count=ended))
    return " · ".join(parts)


NEWEST: Final = "Newest"
NEWER: Final = "Newer"
PER_PAGE: Final = "Rows per page"
rows_per_page: Final = Sentence("{count} per page")
place: Final = Sentence("{first}–{last} of {total} · page {page}")
about: Final = Sentence("about {total}")
rare: Final = Sentence("Few sessions match. {looked_at} sessions searched so far, {share} of the list.")
LESS_THAN_A_PERCENT: Final = "less than 1 %"
SEARCH_FURTHER: Final = "Search further"

# -- Empty and unreadable lists ----------------------------------------------------------------------------------------

EMPTY_TITLE: Final = "No one is online yet"
EMPTY: Final = "The first login that your site records appears here. Add these three lines to the site's sign-in:"
EMPTY_CODE: Final = """from presence_core import Presence

presence = Presence.from_env()
login = presence.login("dana", name="Dana Novak", device="iPhone")"""
EMPTY_NEXT: Final = (
    "If your site already records logins, ask your administrator whether it uses the same settings as this dashboard."
)

EMPTIED_TITLE: Final = "No sessions are left"
EMPTIED: Final = "All sessions of this list have ended. History shows how, and who ended them."
NO_MATCH_TITLE: Final = "No session matches"
NO_MATCH: Final = (
    "Search for the start of a name, user ID, email or phone number, for an email domain, an IP address or a whole "
    "session ID. Devices, browsers and apps are in Filters."
)
NO_MATCH_FILTERED: Final = "Or remove a filter."
NO_MATCH_MASKED: Final = "With your role, search by the exact user ID."
INSIDE_NAMES: Final = "Search inside names"
offline: Final = Sentence("Search {text} among people who are offline")
HINT_FILTER_HELP: Final = "Filter by this instead of searching the text"
EXACT_MATCH: Final = "Exact user ID"
ticket_actions: Final = Sentence("Staff actions with ticket {ticket}")
ENDED_SESSIONS: Final = "Show ended sessions"

# -- Export ------------------------------------------------------------------------------------------------------------

EXPORT_LIST: Final = "Export"
EXPORT_TITLE: Final = "Export as CSV"
EXPORT_WHICH: Final = "All matching rows, newest first, times in UTC. The export is recorded in the audit log."
EXPORT_SAVE: Final = "Save the file"
export_progress: Final = Sentence("{count} of {total}")
export_ready: Final = Counted("The file is ready: {shown} row.", "The file is ready: {shown} rows.")
export_most: Final = Sentence(
    "The file has the first {most} rows. To export more, ask your administrator for `presence export`."
)


def mirrored(store: str, age: str) -> str:
    return _(
        "**Mirrored from the site ({store}).** At most {age} behind. A kick also ends the session at the site, usually "
        "within a second."
    ).format(store=store, age=age)


mirror_waiting: Final = Counted(
    "{count} kicked session has not ended at the site yet.", "{count} kicked sessions have not ended at the site yet."
)


def mirror_waits(store: str) -> str:
    return _(
        "**The site’s sessions ({store}) cannot be read at the moment.** They are shown as they were. Kicks wait until "
        "they can be read again."
    ).format(store=store)


def mirror_stopped(store: str, age: str) -> str:
    return _(
        "**The mirror of the site’s sessions ({store}) stopped {age} ago.** They are shown as they were then. Kicks "
        "wait until it runs again. Tell your administrator."
    ).format(store=store, age=age)
