"""The Person page, with its timeline and the privacy menu."""

from __future__ import annotations

from datetime import date
from typing import Final

from presence_dashboard.texts.history import act
from presence_dashboard.texts.kick import is_blocked

# -- Search ------------------------------------------------------------------------------------------------------------

PERSON_SEARCH: Final = "Find a person"
PERSON_SEARCH_HINT: Final = "User ID, name, email or phone number"
PERSON_START_TITLE: Final = "Who are you looking for?"
PERSON_START: Final = (
    "Type the user ID, or the start of a name, email or phone number. The search includes people who are offline. "
    "A link such as `/person?q=dana@example.com` opens a person directly. You can use such links in tickets."
)
PERSON_START_MASKED: Final = "Type the exact user ID. Your role does not show names."
PERSON_OPEN: Final = "Open"
PERSON_UNREAD: Final = "The person appears here as soon as the data can be read."


def person_hits(count: int, is_all: bool) -> str:
    if not is_all:
        return f"The first {count} people found. Type more characters to narrow the search."
    return "1 person found" if count == 1 else f"{count} people found"


def person_others(count: int) -> str:
    return "1 other person" if count == 1 else f"{count} other people"


PERSON_NONE_TITLE: Final = "No one was found"


def person_none(wanted: str, offline_days: int, kicked_days: int) -> str:
    return (
        f"There is no data about {wanted}.\n\n"
        f"- The search compares words from their start. Try the first letters of the name, or the exact user ID.\n"
        f"- Offline people are found for {offline_days} days. Ended sessions are kept for up to {kicked_days} days.\n"
        f"- Staff actions are kept longer."
    )


# -- The person --------------------------------------------------------------------------------------------------------


def person_online(sessions: str) -> str:
    return f":green-badge[online · {sessions}]"


def person_sessions(count: int, shown: str) -> str:
    return "1 session" if count == 1 else f"{shown} sessions"


def person_offline(last_seen: str | None) -> str:
    return f":gray-badge[offline, last active {last_seen}]" if last_seen else ":gray-badge[offline]"


PERSON_NAME_HIDDEN: Final = "Name hidden"


def person_blocked(block: str) -> str:
    return f"{is_blocked(None, block)}. Cannot log in."


# -- Live sessions -----------------------------------------------------------------------------------------------------

PERSON_SESSIONS: Final = "Live sessions"
PERSON_NO_SESSION: Final = "No live sessions."
PERSON_KICK_THIS: Final = "Kick this session"
PERSON_MUST_SIGN_IN: Final = "Must sign in again"
PERSON_KEEP_THIS: Final = "Kick all others"
PERSON_NO_DEVICE: Final = "Unnamed device"
PERSON_NEWEST: Final = "newest"
WATCH: Final = "Watch"
WATCH_STOP: Final = "Stop watching"
WATCH_HELP: Final = "Every page tells you when a person whom you watch comes online. Only you see your list."
WATCH_MENU: Final = "Watching"
WATCH_NONE: Final = "You watch no one. Open a person and choose Watch."
WATCH_SOUND: Final = "Sound"
WATCH_SOUND_HELP: Final = "Plays two notes when a watched person comes online, also in a background tab."
WATCH_ONLINE: Final = ":green-badge[online]"
WATCH_OFFLINE: Final = ":gray-badge[offline]"


def watch_arrived(person: str, link: str) -> str:
    return f"{person} has come online. [Open]({link})"


def watch_more(count: int) -> str:
    return f"{count} more watched {'person has' if count == 1 else 'people have'} come online."


PERSON_ENDED: Final = "ended"
LABEL_ENDED: Final = "Ended"
LABEL_LOGGED_IN: Final = "Logged in"
PERSON_FOLLOW: Final = "Follow"
PERSON_FOLLOW_HELP: Final = (
    "Sessions and timeline update automatically. Cards keep their places: new sessions come last, until you refresh."
)
PERSON_FOLLOW_OFF: Final = "Choose a refresh interval at the top of the page to follow."
PERSON_CHANGED: Final = "Data has changed – refresh"
FACT_UNTIL: Final = "Until"
FACT_CHANGED: Final = "Changed"
FACT_MESSAGE: Final = "Message"


def person_kick_all(count: int, shown: str) -> str:
    return "Kick the session" if count == 1 else f"Kick all {shown}" if count else "Kick all"


def must_sign_in(by: str | None, at: str) -> str:
    """by: staff, safe for Markdown."""
    return f":orange-badge[{PERSON_MUST_SIGN_IN}] ({f'by {by}, ' if by else 'since '}{at})"


def also_open(viewers: list[tuple[str, str]], more: int) -> str:
    """viewers: name and since when, safe for Markdown."""
    named = ", ".join(f"{name}, since {since}" for name, since in viewers)
    return f":orange-badge[:material/group: Also open: {named}{f' and {more} more' if more else ''}]"


def colleague_acted(by: str, action: str, outcome: str | None, at: str) -> str:
    return f"{at}: {happened_staff(action, by)}{f': {outcome}' if outcome else ''}"


def person_more_cards(left: int, shown: str, total: str) -> str:
    return f"Show {shown} more of {total}" if left else f"Show all {total}"


def person_as_of(clock: str, age: str) -> str:
    return f"Data as of {clock}, {age} ago"


# -- Privacy -----------------------------------------------------------------------------------------------------------

PRIVACY: Final = "Privacy"
PRIVACY_EXPORT: Final = "Create a file of all stored data"
PRIVACY_EXPORT_EXPLAINED: Final = (
    "The file includes texts written by staff: read it before you hand it out. The export is recorded in the audit log."
)
PRIVACY_ERASE: Final = "Erase this person"
PRIVACY_ERASE_EXPLAINED: Final = (
    "Ends all sessions of this person and deletes all stored data about them, including a block. Staff actions stay in "
    "the audit log under a pseudonym. This cannot be undone."
)


def privacy_type(uid: str) -> str:
    return f"Type the user ID to confirm: {uid}"


def privacy_erased(sessions: int, pseudonym: str) -> str:
    return (
        f"Person erased, with {sessions} session{'' if sessions == 1 else 's'}. Pseudonym in the audit log: {pseudonym}"
    )


def privacy_not_erased(pseudonym: str) -> str:
    return (
        "Some data is left: the person logged in again, or a running bulk kick names them. Erase them again when it "
        f"has ended. Pseudonym in the audit log: {pseudonym}"
    )


# -- The timeline ------------------------------------------------------------------------------------------------------

PERSON_TIMELINE: Final = "Timeline"
PERSON_FILTER: Final = "Show"
PERSON_KINDS: Final = {"all": "All", "login": "Logins", "end": "Ends", "staff": "Staff actions"}
PERSON_NOTHING: Final = "No entries."
PERSON_NOTHING_OF_KIND: Final = "No entries of this kind."
PERSON_HISTORY: Final = "Staff actions in History"
PERSON_LOOK_BACK: Final = "Search older staff actions"
PERSON_LIVE: Final = ":green-badge[live]"

_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip


def ended_since(moment: str) -> str:
    return (
        f"Ended sessions are complete since {moment}. Older ones may be missing, because there were too many to keep."
    )


def day_heading(day: date, today: date) -> str:
    named = f"{_DAYS[day.weekday()]}, {day.day} {_MONTHS[day.month - 1]} {day.year}"
    return {0: f"Today · {named}", 1: f"Yesterday · {named}"}.get((today - day).days, named)


def happened_login(device: str) -> str:
    return f":gray[:material/login:] Logged in: {device}"


def happened_logout(device: str, elsewhere: bool = False) -> str:
    return f":gray[:material/logout:] Signed out{' from another device' if elsewhere else ''}: {device}"


def happened_idle(device: str, idle: str) -> str:
    return f":gray[:material/schedule:] Expired after {idle} without activity: {device}"


def happened_absolute(device: str, absolute: str) -> str:
    return f":gray[:material/schedule:] Expired {absolute} after login: {device}"


def happened_lost(device: str) -> str:
    return f":gray[:material/help:] Ended, because its record was lost: {device}"


def happened_replaced(device: str, newer: str) -> str:
    return f":gray[:material/swap_horiz:] Replaced by {newer}: {device}"


NEWER_LOGIN: Final = "a newer login"
NEWER_LOGIN_ON_DEVICE: Final = "a newer login on the same device"


def newer_login_at(device: str, exact: str) -> str:
    return f"the login on {device} at {exact}"


def happened_kicked(devices: str, by: str) -> str:
    return f":orange[:material/person_remove:] Kicked by {by}: {devices}"


def happened_revoked(device: str, by: str) -> str:
    return f":orange[:material/person_remove:] Everyone signed out by {by}: {device}"


def happened_staff(action: str, by: str) -> str:
    icon = {"block": "block", "unblock": "lock_open", "denied": "gpp_bad", "require_sign_in": "lock_reset"}.get(
        action, "badge"
    )
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
