"""The Live page."""

from __future__ import annotations

from typing import Final

from presence_core import Alert
from presence_dashboard.language import gettext as _
from presence_dashboard.language import ngettext, number
from presence_dashboard.texts.common import FLAG_DISTANT, FLAG_NEW_DEVICE

# -- The counts --------------------------------------------------------------------------------------------------------

LIVE_LOGINS: Final = "Logins / min"
LIVE_ENDS: Final = "Ends / min"
LIVE_PEAK: Final = "Peak today"
LIVE_LOGINS_HELP: Final = "Logins in the last full minute. The line shows the last hour."
LIVE_ENDS_HELP: Final = (
    "Sign-outs, expired, kicked and replaced sessions in the last full minute. The line shows the last hour."
)
LIVE_PEAK_HELP: Final = "The most users online at the same time since midnight, in your time zone."


def live_peak_help(at: str) -> str:
    return f"{_(LIVE_PEAK_HELP)} {_('Reached at {at}.').format(at=at)}"


def live_no_worker(last: str | None) -> str:
    if last is None:
        return _("**The charts have not been updated.** Tell your administrator: the Health page has the details.")
    return _(
        "**The charts have not been updated for {last}.** Tell your administrator: the Health page has the details."
    ).format(last=last)


def live_alert(alert: Alert) -> str:
    if alert.count == "ends":
        sentence = _("**Alert.** Sessions ended in the last minute: {count}. The limit is {limit}.")
    else:
        sentence = _("**Alert.** Logins in the last minute: {count}. The limit is {limit}.")
    return sentence.format(count=number(alert.per_minute), limit=number(alert.limit))


LIVE_NOT_YET: Final = "This appears here as soon as it can be read."
LIVE_NO_SAMPLES_TITLE: Final = "No data for the chart yet"
LIVE_NO_SAMPLES: Final = "The counts are recorded every ten seconds. The first ones appear here within a minute."
LIVE_START_ONE: Final = "If nothing appears, ask your administrator to run this command next to the site:"
LIVE_NO_SAMPLES_CODE: Final = "presence worker"

# -- The chart ---------------------------------------------------------------------------------------------------------

LIVE_CHART: Final = "Counts over time"
LIVE_RANGE: Final = "Range"
LIVE_OTHER_TIMES: Final = "Other times …"
LIVE_SHOW_TIMES: Final = "Show"
LIVE_ZOOM_OUT: Final = "Zoom out"
LIVE_TIMES_MISSING: Final = "Choose both times."
LIVE_TIMES_REVERSED: Final = "The first time must be earlier than the second and than now."
LIVE_TIMES_LONG: Final = "Choose at most two years."


def live_back_to(chosen: str) -> str:
    return _("Back to {chosen}").format(chosen=chosen)


def live_from(zone: str) -> str:
    return _("From ({zone})").format(zone=zone)


def live_to(zone: str) -> str:
    return _("To ({zone})").format(zone=zone)


LIVE_SPLIT: Final = "Split"
LIVE_SPLITS: Final = {
    "": "Nothing",
    "reason": "Ends by reason",
    "odd": "Flagged logins",
    "apps": "Sessions by app",
    "devices": "Sessions by device",
}
LIVE_REASONS: Final = {
    "logouts": "Signed out",
    "expired": "Expired",
    "replaced": "Replaced by a newer login",
    "kicked": "Kicked",
}
LIVE_ODD: Final = {"new_devices": FLAG_NEW_DEVICE, "distant_logins": FLAG_DISTANT}
LIVE_IN_A_LIST: Final = {
    "logouts": "signed out",
    "expired": "expired",
    "replaced": "replaced by a newer login",
    "kicked": "kicked",
    "new_devices": "new device",
    "distant_logins": "far from the last login",
}
"""The end reasons and the flags of logins in the middle of a sentence."""
LIVE_SPLIT_ALT: Final = "{0} over time. The text below describes the chart."
LIVE_NO_ENDS: Final = "No session ended in this range."
LIVE_NO_ODD: Final = "No login in this range was on a new device or far from the last one."
LIVE_NO_SPLIT: Final = "Sessions by app and device are counted once an hour. There is no count in this range yet."


def live_split_ends(parts: list[str], step: str) -> str:
    return _("Ends: {parts}. One bar = {step}.").format(parts=", ".join(parts), step=step)


def live_split_odd(parts: list[str], step: str) -> str:
    return _("Logins: {parts}. One bar = {step}.").format(parts=", ".join(parts), step=step)


def live_split_sessions(parts: list[str]) -> str:
    return _("Counted once an hour. Latest: {parts}.").format(parts=", ".join(parts))


def live_split_part(value: str, count: str) -> str:
    return _("{value} {count}").format(value=value, count=count)


LIVE_SHOWN: Final = "Lines"
LIVE_GHOST: Final = "Compare with"
LIVE_GHOST_NONE: Final = "Nothing"
LIVE_GHOST_DAY: Final = "Yesterday"
LIVE_GHOST_WEEK: Final = "Last week"
LIVE_AS_TABLE: Final = "Show as table"
LIVE_CHART_ALT: Final = (
    "Users online and sessions over time. The text below describes the chart, the switch shows a table."
)
LIVE_NONE_IN_RANGE: Final = "There is no data in this range."

LIVE_KEY_GHOST: Final = {
    LIVE_GHOST_DAY: "thin grey: same time yesterday",
    LIVE_GHOST_WEEK: "thin grey: same time last week",
}
LIVE_KEY_NO_GHOST: Final = {
    LIVE_GHOST_DAY: "no data for the same time yesterday",
    LIVE_GHOST_WEEK: "no data for the same time last week",
}
LIVE_KEY_RUNNING: Final = "dashed: still being counted"
LIVE_KEY_ZOOM: Final = "drag over the chart to zoom"
LIVE_KEY_KICKS: Final = "▼ kicks: click one to see who and why"
LIVE_KEY_KICKS_COUNTED: Final = "▼ kicks"
LIVE_KICKS_HISTORY: Final = "Show in History"
LIVE_KICKS_CLOSE: Final = "Close"
LIVE_KICKS_GONE: Final = "The kicks of that time are no longer stored."


def live_kicks(count: int, since: str, until: str) -> str:
    return ngettext(
        "{count} kick between {since} and {until}", "{count} kicks between {since} and {until}", count
    ).format(count=number(count), since=since, until=until)


def live_kicks_shown(shown: int) -> str:
    return _("The latest {shown} are shown.").format(shown=shown)


def live_no_kicks(at: str) -> str:
    return _("No kicks around {at}. Click a ▼ to see who was kicked and why.").format(at=at)


def live_key(parts: list[str], step: str, zone: str) -> str:
    point, times = _("one point = {step}").format(step=step), _("times in {zone}").format(zone=zone)
    text = " · ".join([*parts, point, times])
    return text[0].upper() + text[1:]


def live_at(moment: str) -> str:
    return _("at {moment}").format(moment=moment)


def live_between(begin: str, end: str) -> str:
    return _("between {begin} and {end}").format(begin=begin, end=end)


def live_summary(what: str, low: str, low_when: str, high: str, high_when: str, now: str) -> str:
    """``low_when`` and ``high_when`` are from ``live_at`` or ``live_between``."""
    return _("{what}: lowest {low} {low_when}, highest {high} {high_when}, latest {now}.").format(
        what=what, low=low, low_when=low_when, high=high, high_when=high_when, now=now
    )


LIVE_AT: Final = "Time"
LIVE_AT_UTC: Final = "Time (UTC)"
LIVE_COUNT: Final = "Count"
LIVE_LEAST: Final = "Least"
LIVE_MOST: Final = "Most"
LIVE_LOGINS_COLUMN: Final = "Logins"
LIVE_ENDS_COLUMN: Final = "Ends"
LIVE_KICKS_COLUMN: Final = "Kicks"
LIVE_TABLE_LABEL: Final = "The data of the chart, newest first"

# -- Sessions by device, app and browser -------------------------------------------------------------------------------

LIVE_BREAKDOWN: Final = "Sessions by device, app and browser"
LIVE_BREAKDOWN_NO_DEVICES: Final = "Sessions by app and browser"
LIVE_SHARE: Final = "Share"
LIVE_NOT_GIVEN: Final = "(not given)"


def live_other(count: int) -> str:
    return ngettext("({count} other)", "({count} others)", count).format(count=count)


LIVE_NO_ONE: Final = "No one is online."

# -- Latest activity ---------------------------------------------------------------------------------------------------

LIVE_FEED: Final = "Latest logins and ends"
LIVE_FEED_EMPTY: Final = "No logins or ends yet."
LIVE_LOGGED_IN: Final = "logged in"
LIVE_SIGNED_OUT: Final = "signed out"
LIVE_EXPIRED: Final = "expired"
LIVE_REPLACED: Final = "replaced by a newer login"
LIVE_KICKED: Final = "kicked"
LIVE_CAUSES: Final = {
    "self": "from another device",
    "idle": "no activity",
    "absolute": "maximum length reached",
    "lost": "its record was lost",
    "revoked": "everyone was signed out",
    "device_limit": "same device",
}


def live_kick_row(at: str, event: str) -> str:
    return _("{at} · {event}").format(at=at, event=event)


def live_kicked(by: str, note: str | None) -> str:
    return _("kicked by {by}: {note}").format(by=by, note=note) if note else _("kicked by {by}").format(by=by)


def live_row(ago: str, event: str) -> str:
    return _("{ago} ago · {event}").format(ago=ago, event=event)


def live_when(exact: str, local: str) -> str:
    return _("{exact}, {local} in your time zone").format(exact=exact, local=local)


def live_feed_as_of(clock: str) -> str:
    return _("Data as of {clock}. Click a name to open the person.").format(clock=clock)


# -- Comparison with the week before -----------------------------------------------------------------------------------

LIVE_COMPARE: Final = "Compare with the week before"
LIVE_PRESET: Final = "Range of days"
LIVE_TODAY: Final = "Today"
LIVE_YESTERDAY: Final = "Yesterday"
LIVE_SEVEN_DAYS: Final = "Last 7 days"
LIVE_OTHER_DAYS: Final = "Other days"
LIVE_TO: Final = "To (included)"
LIVE_FROM_AFTER_TO: Final = "“From” must not be after “To”."
LIVE_THIS: Final = "This period"
LIVE_WEEK_BEFORE: Final = "Week before"
LIVE_CHANGE: Final = "Change"
LIVE_FIGURE: Final = ""
LIVE_COMPARE_LABEL: Final = "Figures of this period and of the week before"
LIVE_UNIQUES_DAY: Final = "Users per day (UTC)"
LIVE_PEAK_USERS: Final = "Peak, users online"
LIVE_MEAN_USERS: Final = "Mean, users online"
LIVE_PEAK_SESSIONS: Final = "Peak, sessions"
LIVE_CSV: Final = "Download CSV"
LIVE_CSV_HELP: Final = "The hours of both periods, times in UTC. Numbers only, no people."
LIVE_TOO_EARLY: Final = "The first full hour of today has not ended yet."


def live_too_many_days(most: int) -> str:
    return _("Choose at most {most} days.").format(most=most)


def live_compared(since: str, until: str, running: bool) -> str:
    compared = _("{since} to {until}, compared with the same hours seven days earlier.")
    so_far = f" {_('Only full hours are compared.')}" if running else ""
    return f"{compared.format(since=since, until=until)}{so_far}"


def live_incomplete(hours: int, of: int, before: int) -> str:
    return _(
        "Data exists for {hours} of {of} hours, and for {before} hours of the week before. Gaps are left out."
    ).format(hours=hours, of=of, before=before)
