"""The Live page."""

from __future__ import annotations

from typing import Final

from presence_core import Alert
from presence_dashboard.language import Counted, Sentence, ngettext, number
from presence_dashboard.language import gettext as _
from presence_dashboard.texts.common import FLAG_DISTANT, FLAG_NEW_DEVICE
from presence_dashboard.texts.endings import LIVE_ENDS_LISTED

# -- The counts --------------------------------------------------------------------------------------------------------

LIVE_LOGINS: Final = "Logins / min"
LIVE_ENDS: Final = "Ends / min"
LIVE_FAILED: Final = "Failed sign-ins / min"
LIVE_PEAK: Final = "Most users today"
LIVE_LOGINS_HELP: Final = "Logins in the last full minute. The line shows the last hour."
LIVE_ENDS_HELP: Final = (
    "Sign-outs, expired, kicked and replaced sessions in the last full minute. The line shows the last hour."
)
LIVE_FAILED_HELP: Final = (
    "Sign-ins that the site, a block or a limit refused in the last full minute. The line shows the last hour."
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
    elif alert.count == "failed":
        sentence = _("**Alert.** Sign-ins failed in the last minute: {count}. The limit is {limit}.")
    else:
        sentence = _("**Alert.** Logins in the last minute: {count}. The limit is {limit}.")
    return sentence.format(count=number(alert.per_minute), limit=number(alert.limit))


def live_denied(count: int) -> str:
    return ngettext(
        "**{count} user** said today or yesterday that a login was not theirs. "
        "In History, choose “Denied by the user”.",
        "**{count} users** said today or yesterday that a login was not theirs. "
        "In History, choose “Denied by the user”.",
        count,
    ).format(count=number(count))


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
live_back_to: Final = Sentence("Back to {chosen}")
live_from: Final = Sentence("From ({zone})")
live_to: Final = Sentence("To ({zone})")
LIVE_SPLIT: Final = "Split"
LIVE_SPLITS: Final = {
    "": "Nothing",
    "reason": "Ends by reason",
    "logins": "Logins",
    "odd": "Flagged logins",
    "failed": "Failed sign-ins",
    "apps": "Sessions by app",
    "devices": "Sessions by device",
}
LIVE_ODD: Final = {"new_devices": FLAG_NEW_DEVICE, "distant_logins": FLAG_DISTANT}
LIVE_FAILED_COLUMN: Final = {"failed_logins": "Failed sign-ins"}
LIVE_IN_A_LIST: Final = {
    **LIVE_ENDS_LISTED,
    "logins": "in all",
    "failed_logins": "in all",
    "new_devices": "new device",
    "distant_logins": "far from the last login",
}
"""The end reasons, and logins by flag, in the middle of a sentence."""
LIVE_SPLIT_ALT: Final = "{0} over time. The text below describes the chart."
LIVE_NO_ENDS: Final = "No session ended in this range."
LIVE_NO_LOGINS: Final = "No one logged in in this range."
LIVE_NO_ODD: Final = "No login in this range was on a new device or far from the last one."
LIVE_NO_SPLIT: Final = "Sessions by app and device are counted once an hour. There is no count in this range yet."


def live_split_ends(parts: list[str], step: str) -> str:
    return _("Ends: {parts}. One bar = {step}.").format(parts=", ".join(parts), step=step)


def live_split_odd(parts: list[str], step: str) -> str:
    return _("Logins: {parts}. One bar = {step}.").format(parts=", ".join(parts), step=step)


def live_split_failed(parts: list[str], step: str) -> str:
    return _("Failed sign-ins: {parts}. One bar = {step}.").format(parts=", ".join(parts), step=step)


def live_split_sessions(parts: list[str]) -> str:
    return _("Counted once an hour. Latest: {parts}.").format(parts=", ".join(parts))


live_split_part: Final = Sentence("{value} {count}")
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
LIVE_KEY_LOGINS: Final = "click to see the logins of that time"
LIVE_KEY_KICKS: Final = "▼ kicks: click one to see who and why"
LIVE_KEY_KICKS_COUNTED: Final = "▼ kicks"
LIVE_KICKS_HISTORY: Final = "Show in History"
LIVE_KICKS_CLOSE: Final = "Close"
LIVE_KICKS_GONE: Final = "The kicks of that time are no longer stored."


def live_kicks(count: int, since: str, until: str) -> str:
    return ngettext(
        "{count} kick between {since} and {until}", "{count} kicks between {since} and {until}", count
    ).format(count=number(count), since=since, until=until)


live_kicks_shown: Final = Sentence("The latest {shown} are shown.")
LIVE_SPAN_SESSIONS: Final = "Show in Sessions"
LIVE_SPAN_EMPTY: Final = "No login or end of this time is stored."
live_span_most: Final = Sentence(
    "At most {most} live and as many ended sessions are read, so some logins may be missing."
)


def live_logins(count: int, since: str, until: str) -> str:
    return ngettext(
        "{count} login between {since} and {until}", "{count} logins between {since} and {until}", count
    ).format(count=number(count), since=since, until=until)


def live_key(parts: list[str], step: str, zone: str) -> str:
    point, times = _("one point = {step}").format(step=step), _("times in {zone}").format(zone=zone)
    text = " · ".join([*parts, point, times])
    return text[0].upper() + text[1:]


live_at: Final = Sentence("at {moment}")
live_between: Final = Sentence("between {begin} and {end}")
live_summary: Final = Sentence("{what}: lowest {low} {low_when}, highest {high} {high_when}, latest {now}.")
"""``low_when`` and ``high_when`` are from ``live_at`` or ``live_between``."""
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
live_other: Final = Counted("({count} other)", "({count} others)")
LIVE_NO_ONE: Final = "No one is online."

# -- Latest activity ---------------------------------------------------------------------------------------------------

LIVE_FEED: Final = "Latest logins and ends"
LIVE_FEED_EMPTY: Final = "No logins or ends yet."
live_feed_between: Final = Sentence("Those between {since} and {until}, as chosen in the chart.")
LIVE_LOGGED_IN: Final = "logged in"
live_kick_row: Final = Sentence("{at} · {event}")


def live_kicked(by: str, note: str | None) -> str:
    return _("kicked by {by}: {note}").format(by=by, note=note) if note else _("kicked by {by}").format(by=by)


live_row: Final = Sentence("{ago} ago · {event}")
live_when: Final = Sentence("{exact}, {local} in your time zone")
live_feed_as_of: Final = Sentence("Data as of {clock}. Click a name to open the person.")

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
live_too_many_days: Final = Sentence("Choose at most {most} days.")


def live_compared(since: str, until: str, running: bool) -> str:
    compared = _("{since} to {until}, compared with the same hours seven days earlier.")
    so_far = f" {_('Only full hours are compared.')}" if running else ""
    return f"{compared.format(since=since, until=until)}{so_far}"


live_incomplete: Final = Sentence(
    "Data exists for {hours} of {of} hours, and for {before} hours of the week before. Gaps are left out."
)

# -- People and hours --------------------------------------------------------------------------------------------------

LIVE_TOP: Final = "People with the most now"
LIVE_TOP_DEVICES: Final = "Devices"
LIVE_TOP_NETWORKS: Final = "Networks"
LIVE_TOP_COUNTRIES: Final = "Countries"
LIVE_TOP_UNREAD: Final = "This list appears a few minutes after it was first counted."
LIVE_TOP_NONE: Final = "No one has two or more."
live_top_as_of: Final = Sentence("Counted at {clock}")
LIVE_USUAL: Final = "Users by hour and weekday"
LIVE_USUAL_DAY: Final = "Weekday"
LIVE_USUAL_NONE: Final = "There are no counts of whole hours yet."
live_usual_key: Final = Sentence("Mean of {weeks} weeks, hours of {zone}. The busiest hour is bold.")
