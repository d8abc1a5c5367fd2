"""The Live page."""

from __future__ import annotations

from typing import Final

from presence_core import Alert
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
    return f"{LIVE_PEAK_HELP} Reached at {at}."


def live_updated(age: str) -> str:
    return f"Updated {age} ago."


def live_no_worker(last: str | None) -> str:
    since = f" for {last}" if last else ""
    return f"**The charts have not been updated{since}.** Tell your administrator: the Health page has the details."


def live_alert(alert: Alert) -> str:
    label = "Sessions ended" if alert.count == "ends" else "Logins"
    return f"**Alert.** {label} in the last minute: {alert.per_minute:,}. The limit is {alert.limit:,}."


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
    return f"Back to {chosen}"


def live_from(zone: str) -> str:
    return f"From ({zone})"


def live_to(zone: str) -> str:
    return f"To ({zone})"


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
LIVE_SPLIT_ALT: Final = "{0} over time. The text below describes the chart."
LIVE_NO_ENDS: Final = "No session ended in this range."
LIVE_NO_ODD: Final = "No login in this range was on a new device or far from the last one."
LIVE_NO_SPLIT: Final = "Sessions by app and device are counted once an hour. There is no count in this range yet."


def live_split_ends(parts: list[str], step: str) -> str:
    return f"Ends: {', '.join(parts)}. One bar = {step}."


def live_split_odd(parts: list[str], step: str) -> str:
    return f"Logins: {', '.join(parts)}. One bar = {step}."


def live_split_sessions(parts: list[str]) -> str:
    return f"Counted once an hour. Latest: {', '.join(parts)}."


def live_split_part(value: str, count: str) -> str:
    return f"{value} {count}"


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
LIVE_KICKS_GONE: Final = "Who was kicked then is no longer kept."


def live_kicks(count: int, since: str, until: str) -> str:
    return f"{count:,} {'kick' if count == 1 else 'kicks'} between {since} and {until}"


def live_kicks_shown(shown: int) -> str:
    return f"The latest {shown} are shown."


def live_no_kicks(at: str) -> str:
    return f"No kicks around {at}. Click a ▼ to see who was kicked and why."


def live_key(parts: list[str], step: str, zone: str) -> str:
    text = " · ".join([*parts, f"one point = {step}", f"times in {zone}"])
    return text[0].upper() + text[1:]


def live_summary(what: str, low: str, low_at: str, high: str, high_at: str, now: str) -> str:
    return f"{what}: lowest {low} at {low_at}, highest {high} at {high_at}, latest {now}."


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
LIVE_SHARE: Final = "Share"
LIVE_NOT_GIVEN: Final = "(not given)"


def live_other(count: int) -> str:
    return "(1 other)" if count == 1 else f"({count} others)"


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
    return f"{at} · {event}"


def live_kicked(by: str, note: str | None) -> str:
    return f"kicked by {by}: {note}" if note else f"kicked by {by}"


def live_row(ago: str, event: str) -> str:
    return f"{ago} ago · {event}"


def live_when(exact: str, local: str) -> str:
    return f"{exact}, {local} in your time zone"


def live_feed_as_of(clock: str) -> str:
    return f"Data as of {clock}. Click a name to open the person."


# -- Comparison with the week before -----------------------------------------------------------------------------------

LIVE_COMPARE: Final = "Compare with the week before"
LIVE_PRESET: Final = "Range of days"
LIVE_TODAY: Final = "Today"
LIVE_YESTERDAY: Final = "Yesterday"
LIVE_SEVEN_DAYS: Final = "Last 7 days"
LIVE_OTHER_DAYS: Final = "Other days"
LIVE_FROM: Final = "From"
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
    return f"Choose at most {most} days."


def live_compared(since: str, until: str, running: bool) -> str:
    so_far = " Only full hours are compared." if running else ""
    return f"{since} to {until}, compared with the same hours seven days earlier.{so_far}"


def live_incomplete(hours: int, of: int, before: int) -> str:
    return f"Data exists for {hours} of {of} hours, and for {before} hours of the week before. Gaps are left out."
