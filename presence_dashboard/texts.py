"""Every word that the dashboard shows, in one file: translate this one.

Text with a number or a name in it is a function. What it is given has been made safe by ``format`` already, and it may
set it into Markdown as it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from typing import Final

# ====================================================================================================================
# Every page
# ====================================================================================================================

PRODUCT: Final = "Who is online"


def title(page: str) -> str:
    return f"{page} – {PRODUCT}"


# -- Notices ----------------------------------------------------------------------------------------------------------

DEMO: Final = "Demo data"
DEMO_SITE: Final = "Open the demo site"


def demo_notice(site: str | None) -> str:
    """``site`` is the demo site's address."""
    badge = f":orange-badge[{DEMO}]"
    return f"{badge} [{DEMO_SITE}](<{site}>)" if site else badge


def open_notice(actor: str) -> str:
    return f":blue-badge[Open on this machine only] actions are signed {actor}"


# -- Counts -----------------------------------------------------------------------------------------------------------

USERS: Final = "Users online"
SESSIONS: Final = "Sessions"
LOGINS: Final = "Logins so far"
KICKED: Final = "Kicked so far"
LOGINS_HELP: Final = "Since the first login that was ever recorded here."
KICKED_HELP: Final = "Sessions that staff have ended, since the first login that was ever recorded here."
USERS_HELP: Final = "People with at least one live session, whatever the number of their devices."
SESSIONS_HELP: Final = "Live logins: one for each device or browser that somebody is signed in with."
NO_VALUE: Final = "–"


def counts_as_of(clock: str, users: str | None) -> str:
    return f"Counts as of {clock}, users as of {users}" if users else f"Counts as of {clock}, users not checked yet"


# -- Renewal, and Redis away -------------------------------------------------------------------------------------------

REFRESH_EVERY: Final = "Renew live figures"
REFRESH_EVERY_HELP: Final = "How often counts and charts renew themselves. Rows of a list never move by themselves."


def refresh_every(seconds: int) -> str:
    return f"Renew every {seconds} s" if seconds else "Do not renew"


TAB_HIDDEN: Final = "Nobody looks at this tab"

AWAY_HINT: Final = "Actions are off until the sessions can be read again."


def away(reason: str, data: str | None) -> str:
    shown = f"What you see was read {data} ago." if data else "Nothing has been read yet."
    return f"**The sessions cannot be read just now.** {shown} Actions are off; this page keeps trying.\n\n{reason}"


def unreadable(reason: str) -> str:
    return f"**This could not be read.**\n\n{reason}"


# -- Errors, in place of what the library says of them: see wording.py -------------------------------------------------

ERROR_AWAY: Final = "The server that keeps the sessions cannot be reached just now. Please try again in a minute."
ERROR_NOT_NOW: Final = "That could not be done just now. Please try again in a minute."
ERROR_UNKNOWN: Final = "There was no answer, so it is not known whether that worked. Look before you try again."
ERROR_DATA: Final = "Some of the stored data cannot be read. Tell the people who run this dashboard; its log says more."
ERROR_VALUE: Final = "A value was not accepted. Tell the people who run this dashboard; its log says which."
_NO_CHANGES: Final = "The server that keeps the sessions takes no changes just now. Please try again in a minute."
ERROR_SERVER: Final = {
    "NOPERM": "The server does not permit this dashboard to do that. Tell the people who run it; its log says more.",
    "OOM": "The server that keeps the sessions is out of memory. Tell the people who run it.",
    "LOADING": "The server that keeps the sessions is starting. Please try again in a minute.",
    "LAYOUT": "The stored data is being moved just now. Please try again in a minute.",
    "READONLY": _NO_CHANGES,
    "NOREPLICAS": _NO_CHANGES,
    "MISCONF": _NO_CHANGES,
}
"""The server's own code → sentence."""

_FILTER: Final = "A filter has a value that no session can have. Remove that filter."
_SEARCH: Final = "That cannot be searched for. Type up to 256 characters, with a letter or a digit among them."
ERROR_FIELD: Final[dict[str, dict[str, str]]] = {
    "reason": {"": "The reason must be 1 to 500 characters of plain text."},
    "message": {"": "The message must be 1 to 500 characters of plain text."},
    "ticket": {"": "The ticket must be at most 64 plain characters, on one line."},
    "duration": {"": "A block lasts from 1 second to 10 years, or until somebody unblocks the person."},
    "block_for": {"": "A block lasts from 1 second to 10 years, or until somebody unblocks the person."},
    "by": {"": "Your sign-in name cannot be used to sign an action. Ask an admin of this dashboard."},
    "job_id": {"": "This bulk kick has ended already. It cannot be paused, resumed or cancelled."},
    "expected": {"": "More sessions match now than were counted. Count them again."},
    "exclude": {"at most": "Too many ticked rows to leave out. Untick some."},
    "logged_in_after": {
        "must lie in the past": "The login time must begin in the past: a bulk kick ends existing sessions only.",
        "must be earlier": "The first time must be earlier than the second.",
    },
    "text": {"": _SEARCH},
    "name_prefix": {"": _SEARCH},
    "name_contains": {"": _SEARCH},
    "ip": {"": "That is not an IP address or a range of addresses. Type `192.0.2.7` or `192.0.2.0/24`, for example."},
    "uid": {"": "That is not a user ID. A user ID has 1 to 256 characters, on one line."},
    "idle": {"": _FILTER},
    "login": {"": _FILTER},
    **{field: {"": _FILTER} for field in ("device", "app", "app_version", "os", "browser", "attributes")},
    "since": {"": "The first time must be earlier than the second."},
    "cursor": {"": "The next page cannot be read. Go back to the newest."},
    "name": {
        "last admin": "This is the last admin. Make somebody else an admin first.",
        "no room": "The list of staff is full. Remove a record first.",
        "can be read": "This record cannot be read. Give this person a role again.",
    },
}
"""Field → part of the library's rule → sentence; "" is part of every rule."""


# -- Access ------------------------------------------------------------------------------------------------------------

NO_PERMISSION_TITLE: Final = "This page is not open to you"


def no_permission(role: str) -> str:
    return f"You are signed in with the role {role}. Ask an admin of this dashboard for another one."


SIGNED_OUT_TITLE: Final = "You are signed out"

# -- Navigation --------------------------------------------------------------------------------------------------------

LIVE_PAGE: Final = "Live"
SESSIONS_PAGE: Final = "Sessions"
PERSON_PAGE: Final = "Person"
HISTORY_PAGE: Final = "History"
HEALTH_PAGE: Final = "Health"
STAFF_PAGE: Final = "Staff"


# ====================================================================================================================
# The dialog that kicks and blocks, and what came of it
# ====================================================================================================================

# -- The kick dialog --------------------------------------------------------------------------------------------------

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
PHRASES_HELP: Final = "A phrase fills the fields that are empty. What you typed stays."
REASON: Final = "Reason (for us)"
REASON_HELP: Final = "Kept with the session and in the audit trail, up to 500 characters. The visitor never sees it."
REASON_MISSING: Final = "Please give a reason: it is what a colleague will read later."
MESSAGE: Final = "Message for the visitor (optional)"
MESSAGE_HELP: Final = "Shown at the visitor's next click, up to 500 characters."
TICKET: Final = "Ticket (optional)"
CANCEL: Final = "Cancel"

BLOCK_PERSON: Final = "Block this person?"
CHANGE_BLOCK: Final = "Change the block?"
CHANGES_BLOCK: Final = "This changes the existing block. It does not start a second one."
UNBLOCK_PERSON: Final = "Let this person log in again?"
BLOCK_FOR: Final = "Block new logins"
BLOCK_HELP: Final = "A blocked person cannot log in, on any device, until the time is over or somebody unblocks them."
BLOCK_NOT: Final = "No, they may log in again"
BLOCK_AS_IT_IS: Final = "Leave the block as it is"
BLOCK_HOUR: Final = "For 1 hour"
BLOCK_DAY: Final = "For 1 day"
BLOCK_WEEK: Final = "For 7 days"
BLOCK_MONTH: Final = "For 30 days"
BLOCK_UNTIL_UNBLOCKED: Final = "Until unblocked"
CONFIRM_BLOCK: Final = "Block"
CONFIRM_CHANGE: Final = "Change the block"
CONFIRM_SHORTEN: Final = "Make the block shorter"
CONFIRM_UNBLOCK: Final = "Unblock"
TICKET_CHANGE_HELP: Final = "The block keeps its tickets, up to ten. A new one is added to them."
BLOCK_ENDED_MEANWHILE: Final = "The block has just ended. Choose how long to block them."
SHORTEN_MISSING: Final = "This would make the block shorter. To do that, tick the box under “Block new logins”."


def until(moment: str | None) -> str:
    return f"until {moment}" if moment else "until unblocked"


def held(until: str, by: str, tickets: Iterable[str]) -> str:
    cases = ", ".join(tickets)
    return f"{until} by {by}{f' ({cases})' if cases else ''}"


def is_blocked(who: str | None, held: str) -> str:
    return f"{PERSON_BLOCKED} {f'{who}: ' if who else ''}{held}"


def leave_end(until: str) -> str:
    return f"As it is: {until}"


def shorten(until: str) -> str:
    return f"Yes, make the block shorter. At the moment it lasts {until}."


def longer_stays(until: str) -> str:
    return f"The existing block lasts longer and stays: {until}. To make it shorter, open the Person page."


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

PHRASES_BLOCKED: Final = {
    "Suspicious sign-in": (
        "We signed this device out because its sign-in looked unusual. For your safety, signing in is blocked for now.",
        "A sign-in to this account looked unusual. For your safety, signing in is blocked for now.",
    ),
    "User asked": (
        "You asked us to sign this device out and to block signing in.",
        "You asked us to block signing in to this account.",
    ),
    "Lost device": (
        "This device was reported as lost and has been signed out. For your safety, signing in is blocked for now.",
        "A device of this account was reported as lost. For your safety, signing in is blocked for now.",
    ),
    "Shared account": (
        "This account was in use by several people. Signing in to it is blocked for now.",
        "This account was in use by several people. Signing in to it is blocked for now.",
    ),
}
"""Label → (message of a kick where they cannot log in again, message of a block alone). Pages add until when."""


# -- What happened ----------------------------------------------------------------------------------------------------


def kicked(count: int, who: str) -> str:
    return f"Kicked {who}." if count == 1 else f"Kicked {count} sessions of {who}."


def several(first: str, others: int) -> str:
    return f"{first} and {others} {'other' if others == 1 else 'others'}"


UNCONFIRMED: Final = "Not confirmed yet: a server failure could undo it. Retrying until it is confirmed."
UNASKED: Final = "Not confirmed: a server failure could undo it. Ask your administrator to turn confirmation on."


def unconfirmed(said: str) -> str:
    return f"{said} {UNCONFIRMED}"


def unasked(said: str) -> str:
    return f"{said} {UNASKED}"


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
    return f"Outcome unknown for {what}: the server did not reply. Checking automatically."


def still_alive(who: str) -> str:
    return f"Not kicked: {who}. The server did not reply, and the session is still online. Try again."


def untouched(count: int, reason: str) -> str:
    what = "One session was" if count == 1 else f"{count} sessions were"
    return f"{what} not kicked: {reason}"


def could_not(reason: str) -> str:
    return f"That did not work: {reason}"


def unresolved(count: int) -> str:
    what = "One kick" if count == 1 else f"{count} kicks"
    return f"**Outcome unknown.** {what} had no reply. Checking again as soon as the server replies."


def blocked(who: str, held: str) -> str:
    return f"Blocked {who} {held}: they cannot log in."


def still_blocked(who: str, held: str) -> str:
    return f"{who} stays blocked {held}: the existing block lasts longer."


def unblocked(who: str) -> str:
    return f"Unblocked {who}: they may log in again."


def was_not_blocked(who: str) -> str:
    return f"{who} was not blocked."


# ====================================================================================================================
# Sessions
# ====================================================================================================================

# -- Search and filters -----------------------------------------------------------------------------------------------

SEARCH: Final = "Search"
SEARCH_HINT: Final = "Name, user ID, IP address or 192.0.2.0/24"
SEARCH_HINT_MASKED: Final = "The whole user ID"
FACET_LABELS: Final = {"device": "Device", "app": "App", "browser": "Browser", "os": "System"}
FACET_SCOPE: Final = "Counts are of everybody online."
FACET_NONE: Final = "No session says so."


def facet_value(value: str, count: str) -> str:
    return f"{value} · {count}"


def facet_most(shown: int, known: str) -> str:
    return f"The {shown} most frequent of {known}."


def chip(label: str, value: str) -> str:
    return f"{label}: {value}"


CHIP_HELP: Final = "Remove this filter"
CHIP_INSIDE: Final = "Inside names"
CLEAR_FILTERS: Final = "Clear all"
LOGIN_FILTER: Final = "Login"
LOGIN_PRESETS: Final = {"1h": "last hour", "today": "today", "7d": "last 7 days"}
LOGIN_FROM: Final = "From"
LOGIN_TO: Final = "To"
LOGIN_APPLY: Final = "Apply"
LOGIN_RANGE_MISSING: Final = "Please give a time for one of them at least."
LOGIN_MALFORMED: Final = "Use 1h, today, 7d, or two times such as `2026-01-31T12:00Z..2026-01-31T18:00Z`."
LOGIN_BACKWARDS: Final = "The first time must be earlier than the second."


def idle_malformed(most: int) -> str:
    return f"Use whole seconds, up to {most}."


# -- A link that cannot be answered ------------------------------------------------------------------------------------

LINK_TITLE: Final = "This link has a filter that does not work"
LINK_REFUSED: Final = "No sessions are listed: the list would not match the link."
LINK_INSIDE: Final = "It must be the same as the text in the search box."
LINK_SHOW_ALL: Final = "Show everyone"


def link_unknown(name: str) -> str:
    return f"{name} is not a filter of this list."


def link_twice(name: str) -> str:
    return f"{name} is given more than once."


def link_empty(name: str) -> str:
    return f"{name} has no value."


def link_value(name: str, rule: str) -> str:
    return f"{name} cannot have this value. {rule}".strip()


def link_remove(count: int) -> str:
    return "Remove it" if count == 1 else "Remove them"


def login_zone(zone: str) -> str:
    return f"Times in {zone}"


def login_between(after: str | None, before: str | None) -> str:
    return " ".join(part for part in (f"from {after}" if after else "", f"to {before}" if before else "") if part)


IDLE_FILTER: Final = "Idle"


def idle_for(length: str) -> str:
    return f"{length} or more"


COLUMNS_MENU: Final = "Columns"
COLUMNS_LABEL: Final = "Columns to show, in this order"

# -- The list ---------------------------------------------------------------------------------------------------------

REFRESH: Final = "Refresh"
REFRESH_HELP: Final = "Reads this page of the list again. Rows never change by themselves."


def newer(count: int, shown: str) -> str:
    return f"{shown} newer session{'' if count == 1 else 's'} – refresh"


def logins_since(count: int, shown: str) -> str:
    return f"{shown} login{'' if count == 1 else 's'} since – refresh"


def rows_as_of(clock: str, age: str | None, newer_elsewhere: str | None) -> str:
    ago = f", {age} ago" if age else ""
    new = f" · {newer_elsewhere} logged in since" if newer_elsewhere else ""
    return f"List as of {clock}{ago}{new}"


TABLE_LABEL: Final = "Sessions that are online, newest login first"
KICK: Final = "Kick"
COLUMN_NAME: Final = "Name"
COLUMN_UID: Final = "User ID"
COLUMN_DEVICE: Final = "Device"
COLUMN_APP: Final = "App"
COLUMN_BROWSER: Final = "Browser"
COLUMN_BLOCKED: Final = "Blocked"
COLUMN_IP: Final = "IP address"
COLUMN_LOGIN: Final = "Login"
COLUMN_LOGIN_EXACT: Final = "Login (UTC)"
COLUMN_SEEN: Final = "Last seen"
COLUMN_EXPIRES: Final = "Expires"
COLUMN_LAST_IP: Final = "Latest IP"
COLUMN_ALIASES: Final = "Also known as"
NAME_HELP: Final = "Click a name to see the person."
SEEN_HELP: Final = "As of the list's time above. Refresh to see whether they were active since then."
EXPIRES_HELP: Final = "When the session ends automatically, unless it is used before."
IP_HELP: Final = "The address at login."


def browser_on(browser: str | None, system: str | None) -> str:
    return f"{browser} on {system}" if browser and system else browser or system or ""


ENDED_ROW: Final = "Ended"
COLUMN_STATUS: Final = "Status"


def kick_selected(count: int) -> str:
    return f"Kick selected ({count})" if count else "Kick selected"


def kick_all_of(user: str | None) -> str:
    return f"Kick all sessions of {user}" if user else "Kick all sessions of a user"


SELECT_HINT: Final = "Tick rows to act on several at once; by keyboard with Shift + Space."
SELECT_ONE_PERSON: Final = "Tick rows of one user only."
SELECT_NONE: Final = "Clear the selection"


def select_rows(count: int, ended: int) -> str:
    if count == 1:
        return "Select the one live row shown" if ended else "Select the one row shown"
    return f"Select the {count} live rows shown" if ended else f"Select the {count} rows shown"


def selected_hint(count: int, users: int, ended: int) -> str:
    people = "1 user" if users == 1 else f"{users} users"
    over = f" · {ended} more {'has' if ended == 1 else 'have'} ended" if ended else ""
    return f"{count} selected · {people}{over}"


NEWEST: Final = "Newest"
NEWER: Final = "Newer"
OLDER: Final = "Older"
PER_PAGE: Final = "Rows per page"


def rows_per_page(count: int) -> str:
    return f"{count} per page"


SORT_NOTE: Final = "A click on a column header sorts the rows of this page only."


def place(first: str, last: str, total: str, page: int) -> str:
    return f"{first}–{last} of {total} · page {page}"


def about(total: str) -> str:
    return f"about {total}"


def rare(looked_at: str, share: str) -> str:
    return f"Matches are rare: looked at {looked_at} sessions so far, {share} of the list."


LESS_THAN_A_PERCENT: Final = "less than 1 %"
GO_ON_LABEL: Final = "Go on"


# -- Empty, away ------------------------------------------------------------------------------------------------------

NO_LIST_YET: Final = "The list of sessions shows here as soon as it can be read."
EMPTY_TITLE: Final = "Nobody is online yet"
EMPTY: Final = "The first login that your site records shows here. Three lines in its sign-in do that:"
EMPTY_CODE: Final = """from presence_core import Presence

presence = Presence.from_env()  # reads PRESENCE_REDIS_URL
login = presence.login("dana", name="Dana Novak", device="iPhone")"""
EMPTY_NEXT: Final = "Does your site record logins already? Then check that both use the same Redis and namespace."

NO_MATCH_TITLE: Final = "No session matches"
NO_MATCH: Final = "Look for the start of a user ID or of any word of a name, for an address, or take a filter away."
NO_MATCH_MASKED: Final = "Your role finds people by their whole user ID only."
INSIDE_NAMES: Final = "Look inside names"


def offline(text: str) -> str:
    return f"Look for {text} among people who are offline"


ENDED_SESSIONS: Final = "See sessions that have ended"

# -- Bulk kicks -------------------------------------------------------------------------------------------------------


def kick_all(total: str, *, matching: bool, exact: bool) -> str:
    that = " that match" if matching else ""
    return f"Kick all {total}{that} …" if exact else f"Kick all{that} ({about(total)}) …"


KICK_ALL_HELP: Final = "Shows some of them first, and asks you to type their number."
BULK_TITLE: Final = "Kick all that match?"
BULK_TITLE_EVERYBODY: Final = "Kick everybody?"
BULK_COUNTING: Final = "Counting them exactly …"
BULK_EVERYBODY: Final = "everybody who is online"
BULK_NONE: Final = "No session matches any more: there is nothing to kick."
BULK_SAMPLE: Final = "Some of them"
BULK_AGAIN: Final = "Count again"


def bulk_found(count: int, shown: str, clock: str, which: str) -> str:
    many = "session matches" if count == 1 else "sessions match"
    return f"**{shown}** {many}, as of {clock}: {which}. Who logs in from now on is spared."


def bulk_over(most: str) -> str:
    return f"Your role may kick up to {most} at once. Take fewer, or ask an admin."


def too_many_at_once(most: int, count: int) -> str:
    return f"You may end up to {most:,} sessions at once, and these are {count:,}: ask an admin."


def bulk_spare(count: int) -> str:
    return "Spare the one that is ticked" if count == 1 else f"Spare the {count} that are ticked"


def bulk_type(number: str) -> str:
    return f"Type {number} to confirm"


def bulk_mistyped(number: str) -> str:
    return f"To confirm, type the number of sessions: {number}."


BULK_GROWN: Final = "**Nothing was kicked: more match by now.** They were counted again; please look again."


BULK_BEGUN: Final = "The bulk kick has begun. It goes on if you close this tab."

BULK_JOB_STATES: Final = {"running": "running", "paused": "paused"}
BULK_JOB_PAUSE: Final = "Pause"
BULK_JOB_RESUME: Final = "Resume"
BULK_JOB_CANCEL: Final = "Cancel the rest"
BULK_JOB_HIDE: Final = "Hide"


def bulk_job_progress(state: str, kicked: str, total: str, clock: str, by: str, reason: str) -> str:
    return f"Bulk kick {state}: {kicked} of {total} as of {clock} · {by} · {reason}"


def bulk_job_result(state: str, kicked: str, total: str) -> str:
    words = {"cancelled": "Bulk kick cancelled", "failed": "Bulk kick failed"}
    return f"{words.get(state, 'Bulk kick done')}: {kicked} of {total} kicked."


BULK_JOB_FAILED: Final = "The record of this bulk kick cannot be read. Sessions that it ended stay ended."


def bulk_job_missed(count: int, shown: str) -> str:
    had = "One had" if count == 1 else f"{shown} had"
    return f"{had} ended already, or changed so as to match no longer."


def bulk_job_left(count: int, shown: str) -> str:
    return "One was not touched." if count == 1 else f"{shown} were not touched."


# -- Export -----------------------------------------------------------------------------------------------------------

EXPORT_LIST: Final = "Export"
EXPORT_TITLE: Final = "Export as CSV"
EXPORT_WHICH: Final = "All that match, the latest first; times in UTC. That you export them is written to the audit."
EXPORT_SAVE: Final = "Save the file"
EXPORT_RETRY: Final = "Try again"


def export_progress(count: str, total: str) -> str:
    return f"{count} of {total}"


def export_ready(count: int, shown: str) -> str:
    return f"{shown} row{'' if count == 1 else 's'}: ready."


def export_most(most: str) -> str:
    return f"The file holds the first {most}. For more, use the command line: `presence export`."


# ====================================================================================================================
# Person
# ====================================================================================================================

# -- Finding ----------------------------------------------------------------------------------------------------------

PERSON_SEARCH: Final = "Find a person"
PERSON_SEARCH_HINT: Final = "User ID, or the start of a name, email or phone number"
PERSON_SEARCH_HINT_MASKED: Final = "The exact user ID"
PERSON_START_TITLE: Final = "Whom are you looking for?"
PERSON_START: Final = (
    "Type the user ID, or the start of a name, email or phone number. People who are offline are found too. "
    "A link such as `/person?q=dana@example.com` opens a person at once: put it into your tickets."
)
PERSON_START_MASKED: Final = "Type the exact user ID: names are hidden from your role."
PERSON_OPEN: Final = "Open"
PERSON_RETRY: Final = "Try again"
PERSON_UNREAD: Final = "The person shows here as soon as the sessions can be read."


def person_hits(count: int, is_all: bool) -> str:
    if not is_all:
        return f"The first {count} people found. Type more to see fewer."
    return "1 person found" if count == 1 else f"{count} people found"


def person_others(count: int) -> str:
    return "1 other person" if count == 1 else f"{count} other people"


PERSON_NONE_TITLE: Final = "Nobody was found"


def person_none(wanted: str, offline_days: int, kicked_days: int) -> str:
    return (
        f"Nothing is known of {wanted}.\n\n"
        f"- Whole words from their start are compared: try the first letters of the name, or the exact user ID.\n"
        f"- People are found for {offline_days} days after they were last online, ended sessions are kept for up to "
        f"{kicked_days} days.\n"
        f"- What staff did is kept longer."
    )


# -- Who --------------------------------------------------------------------------------------------------------------


def person_online(sessions: str) -> str:
    return f":green-badge[online · {sessions}]"


def person_sessions(count: int, shown: str) -> str:
    return "1 session" if count == 1 else f"{shown} sessions"


def person_offline(last_seen: str | None) -> str:
    return f":gray-badge[offline, last seen {last_seen}]" if last_seen else ":gray-badge[offline]"


PERSON_ALIASES: Final = "Also"
PERSON_NAME_HIDDEN: Final = "Name hidden"
PERSON_BLOCKED: Final = ":red-badge[Blocked]"


def person_blocked(held: str) -> str:
    return f"{is_blocked(None, held)}: cannot log in."


# -- Live sessions ----------------------------------------------------------------------------------------------------

PERSON_SESSIONS: Final = "Live sessions"
PERSON_NO_SESSION: Final = "No live session."
PERSON_KICK_THIS: Final = "Kick this"
PERSON_KEEP_THIS: Final = "Keep only this"
PERSON_BLOCK: Final = "Block"
PERSON_BLOCK_AGAIN: Final = "Change the block"
PERSON_UNBLOCK: Final = "Unblock"
PERSON_NO_DEVICE: Final = "Unnamed device"
PERSON_NEWEST: Final = "newest"
PERSON_CHANGED: Final = "Sessions have changed – refresh"
FACT_IP: Final = "IP address"
FACT_LAST_IP: Final = "Latest IP"
FACT_CLIENT: Final = "Browser"
FACT_APP: Final = "App"
FACT_LOGIN: Final = "Login"
FACT_SEEN: Final = "Last seen"
FACT_EXPIRES: Final = "Expires"
FACT_UNTIL: Final = "Until"
FACT_BLOCKED_AT: Final = "Blocked"
FACT_CHANGED: Final = "Changed"
FACT_REASON: Final = "Reason"
FACT_MESSAGE: Final = "Told them"
FACT_TICKET: Final = "Ticket"
FACT_OUTCOME: Final = "Outcome"


def person_kick_all(count: int, shown: str) -> str:
    return "Kick the one session" if count == 1 else f"Kick all {shown}"


def person_more_cards(left: int, shown: str, total: str) -> str:
    return f"Show {shown} more of {total}" if left else f"Show all {total}"


def person_as_of(clock: str, age: str) -> str:
    return f"As of {clock}, {age} ago"


# -- Privacy ----------------------------------------------------------------------------------------------------------

PRIVACY: Final = "Privacy"
PRIVACY_EXPORT: Final = "Make a file of all that is kept"
PRIVACY_EXPORT_EXPLAINED: Final = "As JSON, with what staff wrote: read it before you hand it out. It is in the audit."
PRIVACY_FORGET: Final = "Forget this person"
PRIVACY_FORGET_EXPLAINED: Final = (
    "Ends their sessions and takes every trace of them out of Redis, a block too. What staff did to them stays in the "
    "audit under a pseudonym. There is no way back."
)
PRIVACY_REASON: Final = "Reason, for staff"
PRIVACY_TYPED: Final = "User ID"


def privacy_type(uid: str) -> str:
    return f"Type the user ID to confirm: {uid}"


def privacy_forgotten(sessions: int, pseudonym: str) -> str:
    return f"Forgotten: {sessions} session{'' if sessions == 1 else 's'}. In the audit: {pseudonym}"


def privacy_not_all(pseudonym: str) -> str:
    return (
        "Something is left: the person signed in again, or a bulk kick that names them is under way. Forget once more "
        f"when it is over. In the audit: {pseudonym}"
    )


# -- The timeline -----------------------------------------------------------------------------------------------------

PERSON_TIMELINE: Final = "Timeline"
PERSON_FILTER: Final = "Show"
PERSON_KINDS: Final = {"all": "All", "login": "Logins", "end": "Ends", "staff": "Staff actions"}
PERSON_NOTHING: Final = "Nothing is kept."
PERSON_NOTHING_OF_KIND: Final = "Nothing of that kind is kept."
PERSON_OLDER: Final = "Older"
PERSON_HISTORY: Final = "Staff actions in History"
PERSON_LOOK_BACK: Final = "Look further back for staff actions"
PERSON_LIVE: Final = ":green-badge[live]"

_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip


def ended_since(moment: str) -> str:
    return f"Ended sessions are complete since {moment}. Older ones may be missing: there were too many to keep."


def day_heading(day: date, today: date) -> str:
    named = f"{_DAYS[day.weekday()]}, {day.day} {_MONTHS[day.month - 1]} {day.year}"
    return {0: f"Today · {named}", 1: f"Yesterday · {named}"}.get((today - day).days, named)


def happened_login(device: str) -> str:
    return f":gray[:material/login:] Logged in: {device}"


def happened_logout(device: str) -> str:
    return f":gray[:material/logout:] Signed out: {device}"


def happened_idle(device: str, idle: str) -> str:
    return f":gray[:material/schedule:] Expired, not used for {idle}: {device}"


def happened_absolute(device: str, absolute: str) -> str:
    return f":gray[:material/schedule:] Expired, {absolute} after its login: {device}"


def happened_lost(device: str) -> str:
    return f":gray[:material/help:] Ended, its record was lost: {device}"


def happened_replaced(device: str, newer: str) -> str:
    return f":gray[:material/swap_horiz:] Replaced by {newer}: {device}"


NEWER_LOGIN: Final = "a newer login"
NEWER_LOGIN_ON_DEVICE: Final = "a newer login on the same device"


def newer_login_at(device: str, exact: str) -> str:
    return f"the login on {device} at {exact}"


def happened_kicked(devices: str, by: str) -> str:
    return f":red[:material/person_remove:] Kicked by {by}: {devices}"


def happened_revoked(device: str, by: str) -> str:
    return f":red[:material/person_remove:] Signed out with everybody else, by {by}: {device}"


def happened_staff(action: str, by: str) -> str:
    icon = {"block": "block", "unblock": "lock_open", "denied": "gpp_bad"}.get(action, "badge")
    what = {
        "kick": "Kick by",
        "block": "Blocked by",
        "unblock": "Unblocked by",
        "denied": "Denied attempt by",
    }.get(action)
    return f":orange[:material/{icon}:] {what} {by}" if what else f":orange[:material/{icon}:] {act(action)} by {by}"


def devices_and_more(devices: str, more: int) -> str:
    return f"{devices} and {more} more" if more else devices


def fact_line(label: str, value: str) -> str:
    return f"{label}: {value}"


# ====================================================================================================================
# History
# ====================================================================================================================

HISTORY_VIEW: Final = "What to show"
HISTORY_ALT: Final = {
    "ended": "Sessions that have ended, the latest first",
    "blocks": "People who may not log in, the latest blocked first",
    "jobs": "Bulk kicks, the newest first",
    "staff": "What staff did, the latest first",
}
HISTORY_VIEWS: Final = {
    "ended": "Ended",
    "blocks": "Blocked",
    "jobs": "Bulk kicks",
    "staff": "Staff actions",
}

# -- Filters ----------------------------------------------------------------------------------------------------------

HISTORY_PERSON: Final = "Person"
HISTORY_PERSON_HINT: Final = "exact user ID"
HISTORY_BY: Final = "Staff"
HISTORY_BY_HINT: Final = "exact name"
HISTORY_WORDS: Final = "Reason contains"
HISTORY_WORDS_HINT: Final = "or the ticket"
HISTORY_HOW: Final = "How it ended"
HISTORY_HOWS: Final = {
    "": "Any way",
    "kicked": "Kicked",
    "replaced": "Replaced",
    "expired": "Expired",
    "logout": "Signed out",
}
HISTORY_ACT: Final = "Action"
HISTORY_ACTS: Final = {
    "": "Any action",
    "kick": "Kick",
    "block": "Block",
    "unblock": "Unblock",
    "kick_where": "Bulk kick",
    "revoke_before": "Sign everybody out",
    "staff": "Staff roles",
    "export": "Export",
    "denied": "Denied attempts",
    "repair": "Repair",
    "reindex": "Reindex",
    "import": "Import",
    "export_person": "Export of a person",
    "forget": "Person forgotten",
}
_BULK_STEPS: Final = {
    "kick_where_start": "Bulk kick begun",
    "kick_where_pause": "Bulk kick paused",
    "kick_where_resume": "Bulk kick resumed",
    "kick_where_cancel": "Bulk kick cancelled",
}


def act(action: str) -> str:
    """What staff did, as the audit calls it: others than those that are known here keep their own name."""
    return _BULK_STEPS.get(action) or HISTORY_ACTS.get(action) or action


HISTORY_TIME: Final = "Any time"
HISTORY_TIME_SET: Final = "Time: limited"
HISTORY_CLEAR: Final = "Clear filters"


def history_since(zone: str) -> str:
    return f"From ({zone})"


def history_until(zone: str) -> str:
    return f"Before ({zone})"


# -- Tables -----------------------------------------------------------------------------------------------------------

HISTORY_NAME: Final = "Name"
HISTORY_UID: Final = "User ID"
HISTORY_ENDED_HOW: Final = "How"
HISTORY_ENDED_BY: Final = "By"
HISTORY_REASON: Final = "Reason"
HISTORY_TICKET: Final = "Ticket"
HISTORY_DEVICE: Final = "Device"
HISTORY_IP: Final = "IP address"
HISTORY_ACTION: Final = "Action"
HISTORY_OUTCOME: Final = "Outcome"
HISTORY_STATE: Final = "State"
HISTORY_PROGRESS: Final = "Progress"
HISTORY_KICKED: Final = "Kicked"
HISTORY_TOTAL: Final = "Of"
HISTORY_OPEN_END: Final = "until unblocked"
HISTORY_REFRESH: Final = "Refresh"
HISTORY_UNREAD: Final = "The list shows here as soon as it can be read."


def history_when(zone: str) -> str:
    return f"When ({zone})"


def history_blocked_until(zone: str) -> str:
    return f"Until ({zone})"


def history_place(first: str, last: str, total: str | None, page: int) -> str:
    of = f"of {total}" if total is not None else "· not counted to the end"
    return f"{first}–{last} {of} · page {page}"


def history_as_of(clock: str) -> str:
    return f"As of {clock}"


HISTORY_EXPORT: Final = "Export CSV"
HISTORY_SELECT_HINT: Final = "Tick a row to see all of it."


# -- Empty ------------------------------------------------------------------------------------------------------------

HISTORY_EMPTY_TITLE: Final = {
    "ended": "No session has ended yet",
    "blocks": "Nobody is blocked",
    "jobs": "There was no bulk kick",
    "staff": "Staff have done nothing yet",
}
HISTORY_EMPTY: Final = {
    "ended": "Sessions that end show here for as long as they are kept: kicked ones the longest.",
    "blocks": "Whom staff block, on the Person page or with a kick, shows here until the block is over.",
    "jobs": "Kicks of all sessions that match a search show here for 30 days after their end.",
    "staff": "Kicks, blocks, exports, changes of roles and denied attempts show here.",
}
HISTORY_NO_MATCH_TITLE: Final = "Nothing matches"
HISTORY_NO_MATCH: Final = "Nothing that is kept fits all of these filters. Person and staff must be written exactly."
HISTORY_NO_MATCH_SO_FAR: Final = "Nothing fits so far: only the latest entries have been looked through."
HISTORY_LOOK_FURTHER: Final = "Look further back"

# -- Details ----------------------------------------------------------------------------------------------------------

HISTORY_OPEN_PERSON: Final = "Open the person"
HISTORY_CAUSES: Final = {
    "user": "the user signed out",
    "idle": "not used for too long",
    "absolute": "its longest time was over",
    "lost": "its record was lost",
    "staff": "staff kicked it",
    "revoked": "everybody was signed out",
    "limit": "a newer login took its place",
    "device_limit": "a newer login on the same device took its place",
}
FACT_AT: Final = "When"
FACT_CAUSE: Final = "Cause"
FACT_BY: Final = "By"
FACT_UID: Final = "User ID"
FACT_NAME: Final = "Name"
FACT_ALIASES: Final = "Also"
FACT_DEVICE: Final = "Device"
FACT_SESSION: Final = "Session"
FACT_REPLACED_BY: Final = "Replaced by"
FACT_ACTION: Final = "Action"
FACT_FILTER: Final = "Whom"
FACT_ERROR: Final = "Failure"
FACT_UPDATED: Final = "Last at work"
FACT_FINISHED: Final = "Finished"
FACT_AGENT: Final = "User agent"

# -- Bulk kicks -------------------------------------------------------------------------------------------------------

JOB_STATES: Final = {
    "running": "running",
    "paused": "paused",
    "cancelled": "cancelled",
    "done": "done",
    "failed": "failed",
}
JOB_PAUSE: Final = "Pause"
JOB_RESUME: Final = "Resume"
JOB_CANCEL: Final = "Cancel it …"
JOB_CANCEL_EXPLAINED: Final = "What it has ended stays ended. It cannot be resumed."
JOB_CANCEL_CONFIRM: Final = "Cancel this bulk kick"
JOB_GONE: Final = "This bulk kick is no longer kept."


def job_progress(state: str, kicked: str, total: str) -> str:
    return f"{state} · {kicked} of {total} sessions ended"


def job_steered(state: str) -> str:
    return f"The bulk kick is {state} now."


# ====================================================================================================================
# Live
# ====================================================================================================================

# -- The strip --------------------------------------------------------------------------------------------------------

LIVE_LOGINS: Final = "Logins / min"
LIVE_ENDS: Final = "Ends / min"
LIVE_PEAK: Final = "Peak today"
LIVE_LOGINS_HELP: Final = "Logins in the last whole minute; the line shows the last hour."
LIVE_ENDS_HELP: Final = (
    "Sign-outs, expiries, kicks and replacements in the last whole minute; the line is the last hour."
)
LIVE_PEAK_HELP: Final = "The most users online at once since midnight, by your own clock."


def live_peak_help(at: str) -> str:
    return f"{LIVE_PEAK_HELP} It was at {at}."


def live_exact_as_of(age: str) -> str:
    return f"Counts exact as of {age} ago"


def live_lag(lag: str) -> str:
    return f"sweep lag {lag}"


def live_worker(leader: str) -> str:
    return f"samples: worker {leader}"


def live_no_worker(last: str | None) -> str:
    heard = f" The last one was heard of {last} ago." if last else ""
    return f"**No worker is running:** charts have no new samples.{heard} Start one: `presence worker`"


LIVE_NOT_YET: Final = "This shows here as soon as it can be read."
LIVE_NO_SAMPLES_TITLE: Final = "No samples yet"
LIVE_NO_SAMPLES: Final = "A worker takes a sample every ten seconds; the first ones show here within a minute."
LIVE_START_ONE: Final = "No worker is running. Start one beside your site:"
LIVE_NO_SAMPLES_CODE: Final = "presence worker"

# -- The chart --------------------------------------------------------------------------------------------------------

LIVE_CHART: Final = "Counts over time"
LIVE_RANGE: Final = "Range"
LIVE_SHOWN: Final = "Lines"
LIVE_GHOST: Final = "Compare with"
LIVE_GHOST_NONE: Final = "Nothing"
LIVE_GHOST_DAY: Final = "Yesterday"
LIVE_GHOST_WEEK: Final = "Last week"
LIVE_AS_TABLE: Final = "Show as table"
LIVE_CHART_ALT: Final = (
    "Users online and sessions over time. The sentence below it says the same, the switch shows a table."
)
LIVE_NONE_IN_RANGE: Final = "There are no samples in this range."

LIVE_KEY_GHOST: Final = {
    LIVE_GHOST_DAY: "thin grey: same time yesterday",
    LIVE_GHOST_WEEK: "thin grey: same time last week",
}
LIVE_KEY_NO_GHOST: Final = {
    LIVE_GHOST_DAY: "nothing was sampled at the same time yesterday",
    LIVE_GHOST_WEEK: "nothing was sampled at the same time last week",
}
LIVE_KEY_RUNNING: Final = "dashed: still being counted"
LIVE_KEY_KICKS: Final = "▼ kicks"


def live_key(parts: list[str], step: str, zone: str) -> str:
    text = " · ".join([*parts, f"one point: {step}", f"times in {zone}"])
    return text[0].upper() + text[1:]


def live_summary(what: str, low: str, low_at: str, high: str, high_at: str, now: str) -> str:
    return f"{what}: lowest {low} at {low_at}, highest {high} at {high_at}, latest {now}."


def live_read_ago(age: str) -> str:
    return f"As read {age} ago."


LIVE_AT: Final = "Time"
LIVE_AT_UTC: Final = "Time (UTC)"
LIVE_LEAST: Final = "Least"
LIVE_MOST: Final = "Most"
LIVE_LOGINS_COLUMN: Final = "Logins"
LIVE_ENDS_COLUMN: Final = "Ends"
LIVE_KICKS_COLUMN: Final = "Kicks"
LIVE_TABLE_LABEL: Final = "The samples of the chart, newest first"

# -- Who is online, by what -------------------------------------------------------------------------------------------

LIVE_BREAKDOWN: Final = "Sessions by device, app and browser"
LIVE_BY_DEVICE: Final = "Device"
LIVE_BY_APP: Final = "App"
LIVE_BY_BROWSER: Final = "Browser"
LIVE_SHARE: Final = "Share"
LIVE_NOT_TOLD: Final = "(not told)"


def live_other(count: int) -> str:
    return "(1 other)" if count == 1 else f"({count} others)"


LIVE_NOBODY: Final = "Nobody is online."

# -- The feed ---------------------------------------------------------------------------------------------------------

LIVE_FEED: Final = "Newest logins and ends"
LIVE_FEED_EMPTY: Final = "Nobody has logged in or left yet."
LIVE_SIGNED_IN: Final = "signed in"
LIVE_SIGNED_OUT: Final = "signed out"
LIVE_EXPIRED: Final = "expired"
LIVE_REPLACED: Final = "replaced by a newer login"
LIVE_KICKED: Final = "kicked"
LIVE_CAUSES: Final = {
    "idle": "idle for too long",
    "absolute": "its time was over",
    "lost": "its record was lost",
    "revoked": "everybody was signed out",
    "device_limit": "limit of its device",
}


def live_kicked(by: str, note: str | None) -> str:
    return f"kicked by {by}: {note}" if note else f"kicked by {by}"


def live_row(ago: str, what: str) -> str:
    return f"{ago} ago · {what}"


def live_when(exact: str, here: str) -> str:
    return f"{exact}, {here} here"


def live_feed_as_of(clock: str) -> str:
    return f"As of {clock}. Point at a name for the exact time; it leads to the person."


# -- Any range against the week before --------------------------------------------------------------------------------

LIVE_COMPARE: Final = "Compare with the week before"
LIVE_PRESET: Final = "Range of days"
LIVE_TODAY: Final = "Today"
LIVE_YESTERDAY: Final = "Yesterday"
LIVE_SEVEN_DAYS: Final = "Last 7 days"
LIVE_OTHER_DAYS: Final = "Other days"
LIVE_FROM: Final = "From"
LIVE_TO: Final = "To (included)"
LIVE_FROM_AFTER_TO: Final = "“From” must not be after “To”."
LIVE_THIS: Final = "These days"
LIVE_WEEK_BEFORE: Final = "A week before"
LIVE_CHANGE: Final = "Change"
LIVE_WHAT: Final = ""
LIVE_COMPARE_LABEL: Final = "Figures of these days beside those of a week before"
LIVE_UNIQUES_DAY: Final = "Users seen a day (UTC)"
LIVE_PEAK_USERS: Final = "Peak, users online"
LIVE_MEAN_USERS: Final = "Mean, users online"
LIVE_PEAK_SESSIONS: Final = "Peak, sessions"
LIVE_CSV: Final = "Download CSV"
LIVE_CSV_HELP: Final = "The hours of both ranges, times in UTC. Numbers only, no people."
LIVE_TOO_EARLY: Final = "The first full hour of today is not over yet."


def live_too_many_days(most: int) -> str:
    return f"At most {most} days at once."


def live_compared(since: str, until: str, running: bool) -> str:
    so_far = " Only full hours count, of both weeks the same." if running else ""
    return f"{since} to {until}, against the same hours seven days earlier.{so_far}"


def live_incomplete(hours: int, of: int, before: int) -> str:
    return f"There are samples of {hours} of these {of} hours, and of {before} a week before: gaps are left out."


# ====================================================================================================================
# Health
# ====================================================================================================================

# -- How it is ---------------------------------------------------------------------------------------------------------

HEALTH_LEVELS: Final = {"ok": "OK", "note": "Note", "warning": "Warning", "error": "Error"}
HEALTH_HEADLINES: Final = {
    "ok": "**All is well.** Nothing that was looked at needs attention.",
    "note": "**All is well.** Something is worth knowing.",
    "warning": "**Something needs attention:** all works for now; what is below should be mended before it does not.",
    "error": "**Something is wrong:** it hurts now.",
}


def health_as_of(age: str) -> str:
    return f"As read {age} ago."


def health_in_order(count: int) -> str:
    return f"In order ({count})"


def health_advice(advice: str) -> str:
    return f"What to do: {advice}"


# -- Figures -----------------------------------------------------------------------------------------------------------

HEALTH_LATENCY: Final = "Latency"
HEALTH_LATENCY_HELP: Final = (
    "A round trip from this dashboard to the slowest server. The lines are the last 60 readings of this dashboard."
)
HEALTH_MEMORY: Final = "Memory"
HEALTH_MEMORY_HELP: Final = "Of all servers together."
HEALTH_EVICTED: Final = "Evicted keys"
HEALTH_EVICTED_HELP: Final = "Since the servers were started, of all their databases. Must stay 0."
HEALTH_LAG: Final = "Sweep lag"
HEALTH_LAG_HELP: Final = "How long the session that is due the longest waits for a sweep."
HEALTH_CLIENTS: Final = "Connections"
HEALTH_CLIENTS_HELP: Final = "Of all programs to all servers."


def health_ms(value: float) -> str:
    return f"{value:.0f} ms" if value >= 100 else f"{value:.1f} ms" if value >= 10 else f"{value:.2f} ms"


def health_seconds(value: float) -> str:
    return f"{value:,.1f} s"


# -- Servers -----------------------------------------------------------------------------------------------------------

HEALTH_SERVERS: Final = "Servers"
HEALTH_FACT: Final = "What"
HEALTH_VALUE: Final = "Value"
HEALTH_KIND: Final = "Version"
HEALTH_ROLE: Final = "Role"
HEALTH_UPTIME: Final = "Up for"
HEALTH_MEMORY_LIMIT: Final = "Memory limit"
HEALTH_EVICTION: Final = "When memory is full"
HEALTH_AOF: Final = "Append-only file"
HEALTH_SNAPSHOT: Final = "Snapshots"
HEALTH_UNSAVED: Final = "Unsaved changes"
HEALTH_REPLICAS: Final = "Replicas"
HEALTH_CLOCK: Final = "Its clock"
HEALTH_SHARDS_SERVED: Final = "Shards of ours"
HEALTH_NO_LIMIT: Final = "none"
HEALTH_ON: Final = "on"
HEALTH_ON_FAILS: Final = "on, but cannot be written"
HEALTH_OFF: Final = "off"


def health_snapshot(ago: str, went_well: bool) -> str:
    return f"last {ago} ago" if went_well else f"failing, last {ago} ago"


def health_replicas(online: int, of: int) -> str:
    return f"{online} of {of} follow" if of else "none"


def health_offset(seconds: float) -> str:
    return "as this machine's" if abs(seconds) < 1 else f"{abs(seconds):.0f} s {'ahead' if seconds > 0 else 'behind'}"


# -- The data and its upkeep -------------------------------------------------------------------------------------------

HEALTH_DATA: Final = "Data"
HEALTH_USERS: Final = "Users, as of the last sweep"
HEALTH_SCHEMA: Final = "Schema"
HEALTH_SHARDS: Final = "Shards"
HEALTH_PER_SHARD: Final = "Sessions per shard"
HEALTH_INDEXES: Final = "Whole indexes"
HEALTH_AGREEMENT: Final = "Lists, counters and indexes"
HEALTH_AGREE: Final = "agree"
HEALTH_NONE: Final = "none"


def health_spread(least: str, mean: str, most: str) -> str:
    return least if least == most else f"{least} to {most}, mean {mean}"


def health_disagree(shards: str) -> str:
    return f"do not agree in shard {shards}"


HEALTH_WORKER: Final = "Worker"
HEALTH_LEADER: Final = "Leader"
HEALTH_LEADS_SINCE: Final = "Leads for"
HEALTH_BEAT: Final = "Last heard of"
HEALTH_LAST_SWEEP: Final = "Last sweep"
HEALTH_PAUSED: Final = "Sweeping"
HEALTH_SWEEPS: Final = "yes"
HEALTH_NO_WORKER: Final = "none has ever run here"
HEALTH_GONE: Final = "gone"


def health_ago(ago: str, clock: str) -> str:
    return f"{ago} ago, {clock}"


# -- What is kept of people, and for how long --------------------------------------------------------------------------

KEPT: Final = "What is kept of people, and for how long"
KEPT_WHAT: Final = "What"
KEPT_LONG: Final = "How long"
KEPT_SETTING: Final = "Setting"
KEPT_NOTE: Final = (
    "As this dashboard's own settings say; the site and its worker are to have the same ones. An admin exports or "
    "forgets a person on the Person page."
)
KEPT_KINDS: Final = {
    "idle_timeout": "Live session, with name, addresses and device",
    "keep_kicked": "Ended session: kicked",
    "keep_replaced": "Ended session: replaced",
    "keep_expired": "Ended session: expired",
    "keep_logout": "Ended session: signed out",
    "truncate_addresses_after": "Addresses of ended sessions, whole",
    "keep_people": "Name and last visit of somebody offline",
    "max_events": "What began and ended: user, session, time",
    "keep_audit": "What staff did, tried and wrote",
    "": "Blocks, staff records",
    "keep_history_10s": "Counts every 10 s: numbers",
    "keep_history_1m": "Counts every minute, and the most frequent apps and devices",
    "keep_history_1h": "Counts every hour and day: numbers",
}
KEPT_NOT: Final = "not kept"
KEPT_UNTIL_LIFTED: Final = "until unblocked or removed"
KEPT_WHOLE: Final = "as long as the session"


def kept_live(idle: str, absolute: str) -> str:
    return f"until it ends: {idle} idle, {absolute} at most"


def kept_latest(number: str) -> str:
    return f"the latest {number}"


def kept_both(time: str, number: str) -> str:
    return f"{time}, the latest {number} at most"


def kept_truncated(days: int) -> str:
    return f"{kept_for(days * 86_400) if days else 'none'}; then /24 (IPv4) or /48 (IPv6)"


def kept_for(seconds: int) -> str:
    """A time of a setting, exactly."""
    for size, one, many in (
        (31_536_000, "year", "years"),
        (86_400, "day", "days"),
        (3_600, "h", "h"),
        (60, "min", "min"),
    ):
        if seconds and seconds % size == 0:
            return f"{seconds // size} {one if seconds == size else many}"
    return f"{seconds} s"


# -- Repair ------------------------------------------------------------------------------------------------------------

HEALTH_UPKEEP: Final = "Upkeep"
HEALTH_UPKEEP_READ_ONLY: Final = "Repair and reindex are for admins."
HEALTH_REPAIR: Final = "Repair"
HEALTH_REINDEX: Final = "Reindex"
HEALTH_REPAIR_HELP: Final = "Walk everything and make lists, counters, indexes and records agree."
HEALTH_REINDEX_HELP: Final = "Make search indexes and facets anew."
HEALTH_ASK: Final = {"repair": "Repair the data?", "reindex": "Make search indexes anew?"}
HEALTH_ABOUT: Final = {
    "repair": "It walks every session and makes lists, sets, counters, indexes and records agree again: after foreign "
    "hands, a lost key or an old snapshot. Entries that no record backs are taken out. People stay signed in, and "
    "logins go on meanwhile.",
    "reindex": "It makes search indexes and facets anew, as the settings ask: after PRESENCE_INDEXES or "
    "PRESENCE_FACETS was changed, or for data of an older version. People stay signed in, and logins go on meanwhile; "
    "searches may be slower until it is done.",
}
HEALTH_GOES_ON: Final = "It goes on if you close this page, and it is written down in the audit trail."


def health_how_long(sessions: str, time: str) -> str:
    return f"With {sessions} sessions it takes {time}, in small steps."


HEALTH_MOMENT: Final = "a moment"


def health_about(time: str) -> str:
    return f"about {time}"


HEALTH_BUSY: Final = "Something is being mended already: wait until it is done."


def health_running(act: str, by: str, since: str) -> str:
    doing = {"repair": "Repairing", "reindex": "Making indexes anew"}[act]
    return f"{doing}, begun by {by} {since} ago"


def health_visited(done: str, total: str) -> str:
    return f"{done} of {total} sessions visited"


def health_put_right(repaired: int, expired: int) -> str:
    if not repaired and not expired:
        return "Nothing had to be put right."
    entries = "1 entry was" if repaired == 1 else f"{repaired:,} entries were"
    over = f" Sessions ended because their time was over: {expired:,}." if expired else ""
    return f"{entries} put right.{over}"


def health_ended(act: str, ago: str, result: str) -> str:
    done = {"repair": "Repaired", "reindex": "Indexes made anew"}[act]
    return f"{done} {ago} ago. {result}"


def health_gave_up(act: str, ago: str, reason: str) -> str:
    doing = {"repair": "The repair", "reindex": "Making indexes anew"}[act]
    return f"{doing} stopped half-way {ago} ago: begin it again. {reason}"


HEALTH_UNAUDITED: Final = "It could not be written down in the audit trail."


# ====================================================================================================================
# Staff
# ====================================================================================================================

STAFF_SEARCH: Final = "Find a colleague"
STAFF_REMOVED: Final = "Also who was removed"
STAFF_ROLES_MEAN: Final = {
    "stats": "counts and charts, no people",
    "viewer": "sees people, acts on nobody",
    "support": "kicks, blocks, exports sessions, and kicks in bulk up to a limit",
    "admin": "everything, also repairs, the audit's export and this page",
}
STAFF_ALT: Final = "Who may work with the dashboard, by name"
STAFF_NAME: Final = "Name"
STAFF_ROLE: Final = "Role"
STAFF_IS_IN: Final = "Signed in"
STAFF_BY: Final = "Given by"
STAFF_NO_ROLE: Final = "removed"
STAFF_YES: Final = "yes"
STAFF_NO: Final = "no"


def staff_since(zone: str) -> str:
    return f"Since ({zone})"


STAFF_SELECT_HINT: Final = "Tick a row to change a role, to sign somebody out or to remove them."
STAFF_EMPTY_TITLE: Final = "Nobody is on record yet"
STAFF_EMPTY: Final = (
    "Open on this machine only, the dashboard needs no staff. Where people sign in, the first admin is made on the "
    "command line:"
)
STAFF_EMPTY_CODE: Final = "presence staff add dana@example.com --role admin"
STAFF_NO_MATCH: Final = "Nobody on record fits."
STAFF_ADD_HINT: Final = "New colleagues: `presence staff add NAME --role support` on the command line, or the sign-in."
STAFF_UNREAD: Final = "The list shows here as soon as it can be read."

FACT_ROLE: Final = "Role"
FACT_SINCE: Final = "Since"
FACT_GIVEN_BY: Final = "Given by"
FACT_SIGNED_IN: Final = "Signed in"

STAFF_SET: Final = "Change role"
STAFF_NEW_ROLE: Final = "New role"
STAFF_SIGN_OUT: Final = "Sign out everywhere"
STAFF_REMOVE: Final = "Remove …"
STAFF_REMOVE_EXPLAINED: Final = (
    "They are refused within 5 seconds, and stay out whatever their provider or proxy says of them. What they did "
    "stays in the audit."
)
STAFF_REMOVE_CONFIRM: Final = "Remove from the staff"


def staff_role(role: str) -> str:
    means = STAFF_ROLES_MEAN.get(role)
    return f"{role}: {means}" if means else role


def staff_sign_in(client: str, ip: str, seen: str) -> str:
    return " · ".join(part for part in (client, ip, f"seen {seen}") if part)


def staff_is_now(who: str, role: str) -> str:
    return f"{who} is {role} now."


def staff_removed(who: str) -> str:
    return f"{who} is no longer on the staff."


def staff_had_no_role(who: str) -> str:
    return f"{who} had no role any more."


def staff_signed_out(who: str, count: int) -> str:
    if not count:
        return f"{who} was not signed in."
    return f"{who} is signed out: {count} sign-in{'' if count == 1 else 's'} ended."


# ====================================================================================================================
# Signing in, and what the gate refuses
# ====================================================================================================================

# -- The form ----------------------------------------------------------------------------------------------------------

SIGN_IN_TITLE: Final = "Sign in – Who is online"
SIGN_IN_HEADING: Final = "Who is online"
SIGN_IN_LEAD: Final = "Sign in to see and end sessions."
SIGN_IN_NAME: Final = "Name"
SIGN_IN_PASSWORD: Final = "Password"
SIGN_IN_BUTTON: Final = "Sign in"
SIGN_IN_WRONG: Final = "That name and password do not match."
SIGN_IN_STALE: Final = "This form was open for too long, or cookies are off. Please try again."
SIGN_IN_BUSY: Final = "Too many people are signing in just now. Please try again in a moment."
SIGN_IN_INSECURE: Final = "Passwords are taken by https only. Open this page by https."


def sign_in_wait(seconds: int) -> str:
    return f"Too many attempts. Please try again in {seconds} second{'' if seconds == 1 else 's'}."


SIGN_OUT_TITLE: Final = "Sign out – Who is online"
SIGN_OUT_LEAD: Final = "You are signed in here."
SIGN_OUT_BUTTON: Final = "Sign out"
SIGN_OUT_BACK: Final = "Back to the dashboard"
SIGN_OUT_DONE: Final = "You are signed out."

# -- Why somebody is not let in, or no longer --------------------------------------------------------------------------

NOT_SIGNED_IN: Final = "You are not signed in."
SESSION_OVER: Final = "You were signed out. Please sign in again."


def idle(minutes: int) -> str:
    length = f"{minutes} minute{'' if minutes == 1 else 's'}" if minutes else "a while"
    return f"You were signed out after {length} in which you did nothing."


def signed_out_by_staff(message: str | None) -> str:
    return f"You were signed out by staff. {message}" if message else "You were signed out by staff."


def no_role(name: str) -> str:
    return f"{name} has no role in this dashboard. Ask one of its admins."


def may_not(role: str) -> str:
    return f"The role {role} may not do that. It has been written down that you tried."


CANNOT_TELL: Final = "Redis is away, so it cannot be found out whether you are signed in. Please try again in a moment."
PROVIDER_NO_EMAIL: Final = (
    "Your sign-in does not say that your email address is verified. Ask an admin of this dashboard."
)
PROVIDER_TOO_OLD: Final = "Your sign-in is too old for this dashboard. Please sign in again."

# -- What the gate answers by itself -----------------------------------------------------------------------------------

NO_GATE: Final = (
    "The dashboard was started without its access control and shows nothing: start it with `presence dashboard`, or in "
    "a checkout with `streamlit run dashboard.py`."
)
REFUSED_TITLE: Final = "Not open to you"
FOREIGN_HOST: Final = "This dashboard does not answer under this name."
FOREIGN_ORIGIN: Final = "This request came from a page of another site."
LOOPBACK_REFUSAL: Final = (
    "This dashboard is open on its own machine only: use http://localhost at the machine that runs it."
)
LOOPBACK_PROXIED: Final = "This dashboard is open on its own machine only and does not answer through a proxy."
NOT_BY_PROXY: Final = "This dashboard is reached through its proxy only."
PROXY_SILENT: Final = "The proxy did not say who you are."
AWAY_TITLE: Final = "Redis is away"
AWAY_PAGE: Final = (
    "Who you are cannot be looked up just now. This page comes back by itself, within 5 seconds of Redis."
)
AWAY_LEAD: Final = "Who you are cannot be looked up just now. This page tries again by itself every 5 seconds."

# -- On every page -----------------------------------------------------------------------------------------------------

SIGN_IN_AGAIN: Final = "Sign in again"


def signed_in_as(name: str, role: str) -> str:
    return f"{name} · {role}"
