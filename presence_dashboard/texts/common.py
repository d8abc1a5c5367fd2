"""Words that several pages show: product, counts, refresh, connection banner, navigation."""

from __future__ import annotations

from datetime import date
from typing import Final

from presence_dashboard.language import Counted, Sentence
from presence_dashboard.language import gettext as _

PRODUCT: Final = "Who is online"


def title(page: str) -> str:
    return f"{page} – {_(PRODUCT)}"


# -- Notices -----------------------------------------------------------------------------------------------------------

DEMO: Final = "Demo data"
DEMO_SITE: Final = "Open the demo site"


def demo_notice(site: str | None) -> str:
    """``site`` is the demo site's address."""
    badge = f":orange-badge[{_(DEMO)}]"
    return f"{badge} [{_(DEMO_SITE)}](<{site}>)" if site else badge


open_notice: Final = Sentence(":blue-badge[Open on this machine only] Your actions are logged as {actor}")


def provider(network: str | None, number: str | None) -> str:
    return f"{network} ({number})" if network and number else network or number or ""


labelled: Final = Sentence("{label}: {value}")
the_user: Final = Sentence("{by} (the user)")
number_of_sessions: Final = Counted("{shown} session", "{shown} sessions")
updated_ago: Final = Sentence("Updated {age} ago.")


def place_at(place: str, at: str) -> str:
    return f"{place}, {at}" if place else at


# -- Labels of fields and columns, and buttons of several pages --------------------------------------------------------

LABEL_NAME: Final = "Name"
LABEL_UID: Final = "User ID"
LABEL_PERSON: Final = "Person"
LABEL_ALIASES: Final = "Also known as"
LABEL_EMAIL: Final = "Email"
LABEL_DEVICE: Final = "Device"
LABEL_APP: Final = "App"
LABEL_BROWSER: Final = "Browser"
LABEL_IP: Final = "IP address"
LABEL_LAST_IP: Final = "Latest IP"
LABEL_PLACE: Final = "Place"
LABEL_CITY: Final = "City"
LABEL_NETWORK: Final = "Provider"
LABEL_SIGNED_IN_AT: Final = "Signed in at"
LABEL_LOGIN_BEFORE: Final = "Login before"
LABEL_MOVED: Final = "Moved"
moved: Final = Sentence("{before} → {after} in {span}")
"""What was before and after a move, such as places, and how long the session was not seen between."""
LABEL_TIME_ZONE: Final = "Time zone"
there: Final = Sentence("{clock} there")
"""A time by the clock of the visitor."""
now_there: Final = Sentence("{zone}, now {clock}")
LABEL_FLAGS: Final = "Flags"
FLAG_NEW_DEVICE: Final = "New device"
FLAG_ON_BEHALF: Final = "Support session"
FLAG_DISTANT: Final = "Far from the last place"
FLAG_AFTER_FAILURES: Final = "After failed sign-ins"
FLAG_MOVED: Final = "Used from elsewhere"
FLAG_OLD_TOKEN: Final = "Possibly copied"
FLAG_SIGN_IN: Final = "Must sign in again"
FLAG_DISTANT_SHORT: Final = "Far away"
FLAG_MOVED_SHORT: Final = "Moved"
FLAG_AFTER_FAILURES_SHORT: Final = "After failures"
"""On a badge, with the whole words as its tooltip."""
FLAG_WORDS: Final = {
    "new_device": FLAG_NEW_DEVICE,
    "distant": FLAG_DISTANT,
    "after_failures": FLAG_AFTER_FAILURES,
    "moved": FLAG_MOVED,
    "old_token": FLAG_OLD_TOKEN,
    "on_behalf": FLAG_ON_BEHALF,
    "sign_in_required": FLAG_SIGN_IN,
}
FLAG_BADGES: Final = FLAG_WORDS | {
    "distant": FLAG_DISTANT_SHORT,
    "after_failures": FLAG_AFTER_FAILURES_SHORT,
    "moved": FLAG_MOVED_SHORT,
}
"""The same for the narrow cells of a table."""
LABEL_ON_BEHALF_BY: Final = "Used by"
LABEL_LOGIN: Final = "Login"
LABEL_LAST_ACTIVE: Final = "Last active"
LABEL_EXPIRES: Final = "Expires"
LABEL_ACTION: Final = "Action"
LABEL_BY: Final = "By"
LABEL_REASON: Final = "Reason"
LABEL_TICKET: Final = "Ticket"
LABEL_OUTCOME: Final = "Outcome"
LABEL_BLOCKED: Final = "Blocked"
LABEL_ROLE: Final = "Role"
LABEL_SINCE: Final = "Since"
MORE_ACTIONS: Final = "More actions"
LABEL_SIGNED_IN: Final = "Signed in"
LABEL_GIVEN_BY: Final = "Given by"
LABEL_HOW_IT_ENDED: Final = "How it ended"
LABEL_WHEN: Final = "When"
LABEL_MESSAGE: Final = "Message"
LABEL_PASSWORD: Final = "Password"
EXPORT_CSV: Final = "Export CSV"
REFRESH: Final = "Refresh"
LIST_UNREAD: Final = "The list appears here as soon as it can be read."
TRY_AGAIN: Final = "Try again"
PAUSE: Final = "Pause"
RESUME: Final = "Resume"
KICK: Final = "Kick"
BLOCK: Final = "Block"
CHANGE_BLOCK_BUTTON: Final = "Change the block"
UNBLOCK: Final = "Unblock"
OLDER: Final = "Older"
REASON: Final = "Reason (for staff)"
EXACT_UID_HINT: Final = "Exact user ID"

# -- Counts ------------------------------------------------------------------------------------------------------------

USERS: Final = "Users online"
SESSIONS: Final = "Sessions"
USERS_HELP: Final = "People with at least one live session. A person with several devices counts once."
SESSIONS_HELP: Final = "One for each device or browser that a person is signed in with."
NO_VALUE: Final = "–"
online_now: Final = Sentence("**{users}** users · **{sessions}** sessions")

# -- Refresh, and the connection banner --------------------------------------------------------------------------------

REFRESH_EVERY: Final = "Refresh live figures"
REFRESH_EVERY_HELP: Final = (
    "How often counts, charts and the rows that are shown are updated. New rows come only when you refresh the list."
)


def refresh_every(seconds: int) -> str:
    return _("Refresh every {seconds} s").format(seconds=seconds) if seconds else _("Do not refresh")


TAB_HIDDEN: Final = "This tab is hidden"
counted_at: Final = Sentence("As of {clock}")
connection_lost_since: Final = Sentence("Connection lost; data from {clock}")
in_zone: Final = Sentence("({zone})")
times_in: Final = Sentence("All times are in {zone}. Files use UTC.")
LANGUAGE: Final = "Language"
LANGUAGE_OF_BROWSER: Final = "As the browser"
DENSITY: Final = "Density"
DENSITIES: Final = {"comfortable": "Comfortable", "compact": "Compact"}

CONNECTION_LOST: Final = "Connection lost; showing data from {0}, {1} ago. Nothing you do here takes effect."
"""For the browser's script, which fills in the time and the age."""

AWAY_HINT: Final = "Actions are off until sessions can be read again."


def away(error: str, clock: str | None) -> str:
    if clock:
        sentence = _(
            "**Sessions cannot be read at the moment.** This page shows data from {clock} or earlier. Actions are off. "
            "Retrying automatically."
        ).format(clock=clock)
    else:
        sentence = _(
            "**Sessions cannot be read at the moment.** No data has been read yet. Actions are off. Retrying "
            "automatically."
        )
    return f"{sentence}\n\n{error}"


def unreadable(error: str) -> str:
    return f"{_('**This data could not be read.**')}\n\n{error}"


# -- The choice of a range of time ------------------------------------------------------------------------------------

TIME_ANY: Final = "Any time"
TIME_PRESETS: Final = {"1h": "last hour", "today": "today", "yesterday": "yesterday", "7d": "last 7 days"}
TIME_FROM: Final = "From"
TIME_TO: Final = "To"
TIME_APPLY: Final = "Apply"
TIME_MISSING: Final = "Enter a time in at least one field."
TIME_MALFORMED: Final = (
    "Use 1h, today, since-08:00, yesterday, 7d, or two times such as `2026-01-31T12:00Z..2026-01-31T18:00Z`."
)
TIME_BACKWARDS: Final = "The first time must be earlier than the second."
time_menu: Final = Sentence("Time: {chosen}")
time_since: Final = Sentence("since {clock}")


def time_between(after: str | None, before: str | None) -> str:
    if after and before:
        return _("from {after} to {before}").format(after=after, before=before)
    if after:
        return _("from {after}").format(after=after)
    return _("to {before}").format(before=before) if before else ""


_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_WEEKDAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def weekday(day: int) -> str:
    """``Mon``. day: 0 is Monday."""
    return _(_WEEKDAYS[day])


def short_date(day: int, month: int, year: int | None = None, weekday: int | None = None) -> str:
    """``22 Nov``, ``22 Nov 2026``, ``Sun 22 Nov``. weekday: 0 is Monday."""
    found = _("{day} {month}").format(day=day, month=_(_MONTHS[month - 1]))
    if year is not None:
        found = _("{date} {year}").format(date=found, year=year)
    if weekday is not None:
        found = _("{weekday} {date}").format(weekday=_(_WEEKDAYS[weekday]), date=found)
    return found


def date_and_time(day: int, month: int, year: int | None, clock: str) -> str:
    """``22 Nov, 10:31``"""
    return _("{date}, {clock}").format(date=short_date(day, month, year), clock=clock)


def weekday_and_time(day: date, clock: str, year: int | None = None) -> str:
    """``Sun 22 Nov, 10:31``"""
    return _("{date}, {clock}").format(date=short_date(day.day, day.month, year, day.weekday()), clock=clock)


# -- Access ------------------------------------------------------------------------------------------------------------

NO_PERMISSION_TITLE: Final = "You do not have access to this page"
no_permission: Final = Sentence("Your role is {role}. Ask an admin of this dashboard for another role.")
SIGNED_OUT_TITLE: Final = "You are signed out"

# -- Navigation --------------------------------------------------------------------------------------------------------

LIVE_PAGE: Final = "Live"
SESSIONS_PAGE: Final = "Sessions"
PERSON_PAGE: Final = "Person"
BLOCKS_PAGE: Final = "Blocks"
HISTORY_PAGE: Final = "History"
HEALTH_PAGE: Final = "Health"
STAFF_PAGE: Final = "Staff"
HANDBOOK_PAGE: Final = "Handbook"
HANDBOOK_IN_ENGLISH: Final = "The handbook is in English."
