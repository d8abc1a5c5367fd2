"""Every word that the dashboard shows, in one file: translate this one.

Text with a number or a name in it is a function. What it is given has been made safe by ``format`` already, and it may
set it into Markdown as it is.
"""

from __future__ import annotations

from typing import Final

PRODUCT: Final = "Who is online"

# -- Notices -----------------------------------------------------------------------------------------------------------

DEMO: Final = "Demo data"
DEMO_SITE: Final = "Open the demo site"


def demo_notice(site: str | None) -> str:
    """``site`` is the demo site's address."""
    badge = f":orange-badge[{DEMO}]"
    return f"{badge} [{DEMO_SITE}](<{site}>)" if site else badge


def open_notice(actor: str) -> str:
    return f":blue-badge[Open on this machine only] actions are signed {actor}"


# -- Counts ------------------------------------------------------------------------------------------------------------

USERS: Final = "Users online"
SESSIONS: Final = "Sessions"
LOGINS: Final = "Logins so far"
KICKED: Final = "Kicked so far"
USERS_HELP: Final = "People with at least one live session, whatever the number of their devices."
SESSIONS_HELP: Final = "Live logins: one for each device or browser that somebody is signed in with."
NO_VALUE: Final = "–"


def exact_as_of(age: str, swept: str | None) -> str:
    users = f"users as of the last sweep {swept} ago" if swept else "users exact once a sweep has run"
    return f"Counts exact as of {age} ago, {users}"


# -- The list ----------------------------------------------------------------------------------------------------------

SESSIONS_PAGE: Final = "Sessions"
REFRESH: Final = "Refresh"
REFRESH_HELP: Final = "Reads this page of the list again. Rows never change by themselves."


def newer(count: int, shown: str) -> str:
    return f"{shown} newer session{'' if count == 1 else 's'} – refresh"


def rows_as_of(clock: str, age: str, newer_elsewhere: str | None) -> str:
    new = f" · {newer_elsewhere} newer on page 1" if newer_elsewhere else ""
    return f"List as of {clock}, {age} ago{new}"


TABLE_LABEL: Final = "Sessions that are online, newest login first"
KICK: Final = "Kick"
COLUMN_NAME: Final = "Name"
COLUMN_UID: Final = "User ID"
COLUMN_DEVICE: Final = "Device"
COLUMN_APP: Final = "App"
COLUMN_BROWSER: Final = "Browser"
COLUMN_IP: Final = "IP address"
COLUMN_LOGIN: Final = "Login"
COLUMN_LOGIN_EXACT: Final = "Login (UTC)"
COLUMN_SEEN: Final = "Last seen"
COLUMN_EXPIRES: Final = "Expires"
EXPIRES_HELP: Final = "When the session ends by itself, unless it is used before."
IP_HELP: Final = "The address at login."


def browser_on(browser: str | None, system: str | None) -> str:
    return f"{browser} on {system}" if browser and system else browser or system or ""


def kick_selected(count: int) -> str:
    return f"Kick selected ({count})" if count else "Kick selected"


def kick_all_of(user: str | None) -> str:
    return f"Kick all sessions of {user}" if user else "Kick all sessions of a user"


SELECT_HINT: Final = "Tick rows to act on several at once."
SELECT_ONE_PERSON: Final = "Tick rows of one user only."
AWAY_HINT: Final = "Actions are off while Redis is away."


def selected_hint(count: int, users: int) -> str:
    people = "1 user" if users == 1 else f"{users} users"
    return f"{count} selected · {people}"


NEWEST: Final = "Newest"
NEWER: Final = "Newer"
OLDER: Final = "Older"
PER_PAGE: Final = "Rows per page"


def rows_per_page(count: int) -> str:
    return f"{count} per page"


def place(first: str, last: str, total: str, page: int) -> str:
    return f"{first}–{last} of {total} · page {page}"


# -- Empty, away -------------------------------------------------------------------------------------------------------

NO_LIST_YET: Final = "The list of sessions shows here as soon as it can be read."
EMPTY_TITLE: Final = "Nobody is online yet"
EMPTY: Final = "The first login that your site records shows here. Three lines in its sign-in do that:"
EMPTY_CODE: Final = """from presence_core import Presence

presence = Presence.from_env()  # reads PRESENCE_REDIS_URL
login = presence.login("dana", name="Dana Novak", device="iPhone")"""
EMPTY_NEXT: Final = "Does your site record logins already? Then check that both use the same Redis and namespace."


def away(reason: str, data: str | None) -> str:
    shown = f"What you see was read {data} ago." if data else "Nothing has been read yet."
    return f"**Redis is away.** {shown} Actions are off; this page keeps trying.\n\n{reason}"


def unreadable(reason: str) -> str:
    return f"**The list could not be read.**\n\n{reason}"


def unresolved(count: int) -> str:
    what = "One kick" if count == 1 else f"{count} kicks"
    return f"**Outcome unknown.** {what} had no answer from Redis; it is looked at again as soon as Redis answers."


# -- The kick dialog ---------------------------------------------------------------------------------------------------

KICK_ONE: Final = "Kick this session?"


def kick_many(count: int) -> str:
    return f"Kick these {count} sessions?"


def kick_person(count: int) -> str:
    return "Kick the one session of this user?" if count == 1 else f"Kick all {count} sessions of this user?"


WHO: Final = "Who is kicked"


def and_more(count: int) -> str:
    return f"… and {count} more."


def login_at(exact: str, ago: str) -> str:
    return f"{exact} ({ago} ago)"


def read_just_now(clock: str) -> str:
    return f"As read at {clock}. A login that begins meanwhile is kicked as well."


def keep_one(device: str, clock: str) -> str:
    return f"Keep the selected session: {device}, login at {clock}"


def keep_selected(count: int) -> str:
    return f"Keep the {count} selected sessions"


PHRASES_LABEL: Final = "Saved phrases"
REASON: Final = "Reason (for us)"
REASON_HELP: Final = "Kept with the session and in the audit trail, up to 500 characters. The visitor never sees it."
REASON_MISSING: Final = "Please give a reason: it is what a colleague will read later."
MESSAGE: Final = "Message for the visitor (optional)"
MESSAGE_HELP: Final = "Shown at the visitor's next click, up to 500 characters."
TICKET: Final = "Ticket (optional)"
CANCEL: Final = "Cancel"


def confirm(count: int) -> str:
    return "Kick 1 session" if count == 1 else f"Kick {count} sessions"


NONE_LEFT: Final = "This user has no live session."
NOTHING_LEFT: Final = "All of them are kept: nothing would be kicked."

PHRASES: Final = {
    "Suspicious sign-in": (
        "Suspicious sign-in",
        "We signed this device out because its sign-in looked unusual. If it was you, sign in again; "
        "if it was not, change your password.",
    ),
    "User asked": ("The user asked us to sign this device out.", "You asked us to sign this device out."),
    "Lost device": (
        "The user reports this device as lost or stolen.",
        "This device was reported as lost and has been signed out.",
    ),
    "Shared account": (
        "The account is used by several people.",
        "This account was in use by several people. Please sign in with an account of your own.",
    ),
}
"""Label → (reason, message)."""

# -- What happened -----------------------------------------------------------------------------------------------------


def kicked(count: int, who: str) -> str:
    return f"Kicked {who}." if count == 1 else f"Kicked {count} sessions of {who}."


def several(first: str, others: int) -> str:
    return f"{first} and {others} {'other' if others == 1 else 'others'}"


def already(who: str, how: str, more: int) -> str:
    others = f" {more} more had ended too." if more else ""
    return f"Already ended: {who} – {how}.{others}"


def forgotten_ends(count: int) -> str:
    had = "One session had" if count == 1 else f"{count} sessions had"
    return f"{had} ended already; how is no longer known."


def end_kicked(by: str, clock: str, ago: str) -> str:
    return f"kicked by {by} at {clock}, {ago} ago"


def end_logout(clock: str, ago: str) -> str:
    return f"signed out at {clock}, {ago} ago"


def end_expired(clock: str, ago: str) -> str:
    return f"expired at {clock}, {ago} ago"


def end_replaced(clock: str, ago: str) -> str:
    return f"replaced by a newer login at {clock}, {ago} ago"


def unknown(count: int) -> str:
    what = "that session" if count == 1 else f"{count} sessions"
    return f"Outcome unknown for {what}: Redis was told and gave no answer. It is looked at again by itself."


def still_alive(who: str) -> str:
    return f"Not kicked: {who}. Redis gave no answer, and the session is still online. Try again."


def untouched(count: int, reason: str) -> str:
    what = "One session was" if count == 1 else f"{count} sessions were"
    return f"{what} not kicked: {reason}"


def could_not(reason: str) -> str:
    return f"That did not work: {reason}"
