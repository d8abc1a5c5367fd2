"""The Person page, with its timeline and the privacy menu."""

from __future__ import annotations

from datetime import date
from typing import Final

from presence_dashboard.language import Counted, Sentence, ngettext
from presence_dashboard.language import gettext as _
from presence_dashboard.texts.common import FLAG_SIGN_IN
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
        return _("The first {count} people found. Type more characters to narrow the search.").format(count=count)
    return ngettext("{count} person found", "{count} people found", count).format(count=count)


DID_YOU_MEAN: Final = "Did you mean"
person_others: Final = Counted("{count} other person", "{count} other people")
PERSON_NONE_TITLE: Final = "No one was found"
person_none: Final = Sentence(
    "- The search compares words from their start. Try the first letters of the name, or the exact user ID.\n"
    "- Offline people are found for {offline_days} days. Ended sessions are kept for up to {kicked_days} days.\n"
    "- Staff actions are kept longer."
)

# -- The person --------------------------------------------------------------------------------------------------------

person_online: Final = Sentence(":green-badge[online · {sessions}]")


def person_offline(last_seen: str | None) -> str:
    if last_seen:
        return _(":gray-badge[offline, last active {last_seen}]").format(last_seen=last_seen)
    return _(WATCH_OFFLINE)


PERSON_NAME_HIDDEN: Final = "Name hidden"


def person_blocked(block: str) -> str:
    return _("{blocked}. Cannot log in.").format(blocked=is_blocked(None, block))


# -- Remarks -----------------------------------------------------------------------------------------------------------

REMARK: Final = "Remark"
REMARKS: Final = "Remarks"
REMARK_ADD: Final = "Leave a remark"
REMARK_HINT: Final = "What colleagues should know about this person"
REMARK_SAVE: Final = "Save remark"
REMARK_REMOVE: Final = "Remove this remark"
REMARK_MISSING: Final = "Write the remark first."
remark_by: Final = Sentence("{by}, {at} · kept until {until}")
remark_kept: Final = Sentence(
    "Colleagues who see people see it for {length}. It is part of an export of the person, and an erasure removes it."
)

# -- Live sessions -----------------------------------------------------------------------------------------------------

PERSON_SESSIONS: Final = "Live sessions"
PERSON_NO_SESSION: Final = "No live sessions."
PERSON_KICK_THIS: Final = "Kick this session"
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
WATCH_NOTIFY: Final = "Desktop notification"
WATCH_NOTIFY_HELP: Final = (
    "Your system says when a watched person comes online while this tab is in the background. Your browser asks you "
    "for permission. The title and the icon of the tab count them in any case."
)
ALERT_TEAM: Final = "Alert the team"
ALERT_TEAM_STOP: Final = "Stop alerting the team"
ALERT_TEAM_HELP: Final = (
    "Each login of this person is sent to where your operators have alerts sent. The list is shared by all staff."
)
watch_said: Final = Sentence("Online now: {people}")
WATCH_ONLINE: Final = ":green-badge[online]"
WATCH_OFFLINE: Final = ":gray-badge[offline]"
watch_arrived: Final = Sentence("{person} has come online. [Open]({link})")
watch_more: Final = Counted(
    "{count} more watched person has come online.", "{count} more watched people have come online."
)
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


def person_kick_all(count: int, shown: str) -> str:
    return ngettext("Kick the session", "Kick all {shown}", count).format(shown=shown) if count else _("Kick all")


def must_sign_in(by: str | None, at: str) -> str:
    """by: staff, safe for Markdown."""
    when = _("by {by}, {at}").format(by=by, at=at) if by else _("since {at}").format(at=at)
    return f":orange-badge[{_(FLAG_SIGN_IN)}] ({when})"


def also_open(viewers: list[tuple[str, str]], more: int) -> str:
    """viewers: name and since when, safe for Markdown."""
    named = ", ".join(_("{name}, since {since}").format(name=name, since=since) for name, since in viewers)
    if more:
        named = _("{names} and {count} more").format(names=named, count=more)
    return f":orange-badge[:material/group: {_('Also open: {names}').format(names=named)}]"


def colleague_acted(by: str, action: str, outcome: str | None, at: str) -> str:
    return f"{at}: {happened_staff(action, by)}{f': {outcome}' if outcome else ''}"


def person_more_cards(left: int, shown: str, total: str) -> str:
    if left:
        return _("Show {shown} more of {total}").format(shown=shown, total=total)
    return _("Show all {total}").format(total=total)


person_as_of: Final = Sentence("Data as of {clock}, {age} ago")

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
privacy_type: Final = Sentence("Type the user ID to confirm: {uid}")


privacy_erased: Final = Counted(
    "Person erased, with {count} session. Pseudonym in the audit log: {pseudonym}",
    "Person erased, with {count} sessions. Pseudonym in the audit log: {pseudonym}",
)
privacy_not_erased: Final = Sentence(
    "Some data is left: the person logged in again, or a running bulk kick names them. Erase them again when it "
    "has ended. Pseudonym in the audit log: {pseudonym}"
)

# -- The timeline ------------------------------------------------------------------------------------------------------

PERSON_TIMELINE: Final = "Timeline"
PERSON_FILTER: Final = "Show"
PERSON_KINDS: Final = {
    "all": "All",
    "login": "Logins",
    "end": "Ends",
    "failed": "Failed sign-ins",
    "staff": "Staff actions",
}
PERSON_NOTHING: Final = "No entries."
PERSON_NOTHING_OF_KIND: Final = "No entries of this kind."
PERSON_HISTORY: Final = "Staff actions in History"
PERSON_LOOK_BACK: Final = "Search older staff actions"
PERSON_LIVE: Final = ":green-badge[live]"

_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_LONG_MONTHS: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
ended_since: Final = Sentence(
    "Ended sessions are complete since {moment}. Older ones may be missing, because there were too many to keep."
)


def day_heading(day: date, today: date) -> str:
    named = _("{weekday}, {day} {month} {year}").format(
        weekday=_(_DAYS[day.weekday()]), day=day.day, month=_(_LONG_MONTHS[day.month - 1]), year=day.year
    )
    if day == today:
        return _("Today · {day}").format(day=named)
    return _("Yesterday · {day}").format(day=named) if (today - day).days == 1 else named


happened_move: Final = Sentence(":orange[:material/travel_explore:] Used from elsewhere: {device}")
happened_login: Final = Sentence(":gray[:material/login:] Logged in: {device}")


def happened_staff(action: str, by: str) -> str:
    icons = {
        "block": "block", "unblock": "lock_open", "denied": "gpp_bad", "require_sign_in": "lock_reset",
        "change_timeouts": "timer", "confirm_login": "verified_user", "deny_login": "gpp_bad",
    }  # fmt: skip
    icon = icons.get(action, "badge")
    known = {
        "kick": _("Kick by {by}"),
        "block": _("Blocked by {by}"),
        "unblock": _("Unblocked by {by}"),
        "denied": _("Denied attempt by {by}"),
        "confirm_login": act("confirm_login"),
        "deny_login": act("deny_login"),
    }
    if action in known:
        words = known[action].format(by=by)
    else:
        words = _("{action} by {by}").format(action=act(action), by=by)
    return f":orange[:material/{icon}:] {words}"


def devices_and_more(devices: str, more: int) -> str:
    return _("{devices} and {count} more").format(devices=devices, count=more) if more else devices
