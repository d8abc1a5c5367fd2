"""The Sessions page: search, filters, the list, its empty states and the export."""

from __future__ import annotations

from typing import Final

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


def facet_value(value: str, count: str) -> str:
    return f"{value} · {count}"


def facet_most(shown: int, known: str) -> str:
    return f"The {shown} most frequent values of {known}."


def chip(label: str, value: str) -> str:
    return f"{label}: {value}"


def filters_menu(count: int) -> str:
    return f"Filters ({count})" if count else "Filters"


CHIP_HELP: Final = "Remove this filter"
CHIP_INSIDE: Final = "Inside names"
CLEAR_FILTERS: Final = "Clear all"


def idle_malformed(most: int) -> str:
    return f"Use whole seconds, up to {most}."


FLAG_MALFORMED: Final = "Use new_device, distant, on_behalf or sign_in_required."


# -- A link with a wrong filter ----------------------------------------------------------------------------------------

LINK_TITLE: Final = "This link has a filter that does not work"
LINK_REFUSED: Final = "No sessions are listed, because the list would not match the link."
LINK_INSIDE: Final = "It must match the text in the search box."
LINK_SHOW_ALL: Final = "Show everyone"


def link_unknown(name: str) -> str:
    return f"{name} is not a filter of this list."


def link_twice(name: str) -> str:
    return f"{name} appears more than once."


def link_empty(name: str) -> str:
    return f"{name} has no value."


def link_value(name: str, rule: str) -> str:
    return f"{name} cannot have this value. {rule}".strip()


def link_remove(count: int) -> str:
    return "Remove this filter" if count == 1 else "Remove these filters"


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


def view_new_name(old: str) -> str:
    return f"New name for {old}"


def view_saved(view: str, shared: bool) -> str:
    return f"View {view} saved{' for everyone' if shared else ''}."


def view_deleted(view: str) -> str:
    return f"View {view} deleted."


def view_unknown(view: str) -> str:
    return f"There is no view {view}, or it is damaged. Someone may have renamed or deleted it."


IDLE_FILTER: Final = "Idle"


def idle_for(length: str) -> str:
    return f"{length} or more"


COLUMNS_MENU: Final = "Columns"
COLUMNS_LABEL: Final = "Columns to show, in this order"

# -- The list ----------------------------------------------------------------------------------------------------------

REFRESH_HELP: Final = "Read this page of the list again. New rows come only when you refresh."


def newer(count: int, shown: str) -> str:
    return f"{shown} newer session{'' if count == 1 else 's'} – refresh"


def logins_since(count: int, shown: str) -> str:
    return f"{shown} new login{'' if count == 1 else 's'} – refresh"


def rows_as_of(clock: str, age: str | None, newer_elsewhere: str | None) -> str:
    ago = f", {age} ago" if age else ""
    new = f" · {newer_elsewhere} new login{'' if newer_elsewhere == '1' else 's'} since then" if newer_elsewhere else ""
    return f"List as of {clock}{ago}{new}"


TABLE_LABEL: Final = "Live sessions, newest login first"
NAME_HELP: Final = "Click a name to open the person."
EXPIRES_HELP: Final = "When the session ends automatically if it is not used."
IP_HELP: Final = "The address at login, or the latest one."


def browser_on(browser: str | None, system: str | None) -> str:
    return f"{browser} on {system}" if browser and system else browser or system or ""


ENDED_ROW: Final = "Ended"


def row_kicked(by: str, at: str) -> str:
    return f"Kicked by {by}, {at}"


def row_logout(at: str) -> str:
    return f"Signed out, {at}"


def row_expired(at: str) -> str:
    return f"Expired, {at}"


def row_replaced(at: str) -> str:
    return f"Replaced by a newer login, {at}"


ROW_GONE: Final = "This session is no longer on the page. Nothing was done."
COLUMN_STATUS: Final = "Status"


def kick_selected(count: int) -> str:
    return f"Kick selected ({count})" if count else "Kick selected"


def kick_all_of(user: str | None) -> str:
    return f"Kick all sessions of {user}" if user else "Kick all sessions of a user"


SELECT_HINT: Final = "Tick rows to act on several sessions. Keyboard: arrows, Space, K, Enter."
SELECT_ONE_PERSON: Final = "Tick rows of one user only."
SELECT_NONE: Final = "Clear the selection"


def select_most(most: int) -> str:
    return f"At most {most} sessions can be selected. Use **Kick all** for more."


def selected_hint(count: int, users: int, elsewhere: int, ended: int) -> str:
    people = "1 user" if users == 1 else f"{users} users"
    pages = f", {elsewhere} on other pages" if elsewhere else ""
    gone = f" · {ended} more {'has' if ended == 1 else 'have'} ended" if ended else ""
    return f"{count} selected{pages} · {people}{gone}"


NEWEST: Final = "Newest"
NEWER: Final = "Newer"
PER_PAGE: Final = "Rows per page"


def rows_per_page(count: int) -> str:
    return f"{count} per page"


def place(first: str, last: str, total: str, page: int) -> str:
    return f"{first}–{last} of {total} · page {page}"


def about(total: str) -> str:
    return f"about {total}"


def rare(looked_at: str, share: str) -> str:
    return f"Few sessions match. {looked_at} sessions searched so far, {share} of the list."


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

NO_MATCH_TITLE: Final = "No session matches"
NO_MATCH: Final = (
    "Search for the start of a name, user ID, email or phone number, for an email domain, an IP address or a whole "
    "session ID. Or remove a filter."
)
NO_MATCH_MASKED: Final = "With your role, search by the exact user ID."
INSIDE_NAMES: Final = "Search inside names"


def offline(text: str) -> str:
    return f"Search {text} among people who are offline"


ENDED_SESSIONS: Final = "Show ended sessions"

# -- Export ------------------------------------------------------------------------------------------------------------

EXPORT_LIST: Final = "Export"
EXPORT_TITLE: Final = "Export as CSV"
EXPORT_WHICH: Final = "All matching rows, newest first, times in UTC. The export is recorded in the audit log."
EXPORT_SAVE: Final = "Save the file"


def export_progress(count: str, total: str) -> str:
    return f"{count} of {total}"


def export_ready(count: int, shown: str) -> str:
    return f"The file is ready: {shown} row{'' if count == 1 else 's'}."


def export_most(most: str) -> str:
    return f"The file has the first {most} rows. To export more, ask your administrator for `presence export`."
