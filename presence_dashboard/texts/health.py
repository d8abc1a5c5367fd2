"""The Health page. The only page that names Redis, workers, shards and indexes."""

from __future__ import annotations

from typing import Final

from presence_dashboard.language import Sentence, decimal, ngettext, number
from presence_dashboard.language import gettext as _
from presence_dashboard.texts.endings import RETENTION_ENDED

# -- Summary -----------------------------------------------------------------------------------------------------------

HEALTH_LEVELS: Final = {"ok": "OK", "note": "Note", "warning": "Warning", "error": "Error"}
HEALTH_HEADLINES: Final = {
    "ok": "**All checks passed.**",
    "note": "**All checks passed,** with notes.",
    "warning": "**Attention needed.** Everything works for now. Fix the warnings below before it stops working.",
    "error": "**A check failed.** The service is affected now.",
}
health_passed: Final = Sentence("Checks passed ({count})")
health_advice: Final = Sentence("What to do: {advice}")

# -- Figures -----------------------------------------------------------------------------------------------------------

HEALTH_LATENCY: Final = "Latency"
HEALTH_LATENCY_HELP: Final = (
    "Round trip from this dashboard to the slowest server. The lines show the last 60 readings of this dashboard."
)
HEALTH_MEMORY: Final = "Memory"
HEALTH_MEMORY_HELP: Final = "Total of all servers."
HEALTH_EVICTED: Final = "Evicted keys"
HEALTH_EVICTED_HELP: Final = "Since the servers started, in all databases. Must stay 0."
HEALTH_LAG: Final = "Sweep lag"
HEALTH_LAG_HELP: Final = "How far sweeps are behind: the age of the oldest deadline that has passed."
HEALTH_CLIENTS: Final = "Connections"
HEALTH_CLIENTS_HELP: Final = "From all programs to all servers."


def health_ms(value: float) -> str:
    return f"{decimal(value, 0 if value >= 100 else 1 if value >= 10 else 2)} ms"


def health_seconds(value: float) -> str:
    return f"{decimal(value, 1)} s"


# -- Servers -----------------------------------------------------------------------------------------------------------

HEALTH_SERVERS: Final = "Servers"
HEALTH_FACT: Final = "Property"
HEALTH_VALUE: Final = "Value"
HEALTH_KIND: Final = "Version"
HEALTH_UPTIME: Final = "Uptime"
HEALTH_MEMORY_LIMIT: Final = "Memory limit"
HEALTH_EVICTION: Final = "Eviction policy"
HEALTH_AOF: Final = "Append-only file"
HEALTH_SNAPSHOT: Final = "Snapshots"
HEALTH_UNSAVED: Final = "Unsaved changes"
HEALTH_REPLICAS: Final = "Replicas"
HEALTH_CLOCK: Final = "Clock offset"
HEALTH_SHARDS_SERVED: Final = "Shards served"
HEALTH_NO_LIMIT: Final = "none"
HEALTH_ON: Final = "on"
HEALTH_ON_FAILS: Final = "on, writes fail"
HEALTH_OFF: Final = "off"


def health_snapshot(ago: str, went_well: bool) -> str:
    return (_("last {ago} ago") if went_well else _("failing, last {ago} ago")).format(ago=ago)


def health_replicas(online: int, of: int) -> str:
    return _("{online} of {of} connected").format(online=online, of=of) if of else _("none")


def health_offset(seconds: float) -> str:
    if abs(seconds) < 1:
        return "0 s"
    return (_("{seconds} s ahead") if seconds > 0 else _("{seconds} s behind")).format(seconds=f"{abs(seconds):.0f}")


# -- Data and worker ---------------------------------------------------------------------------------------------------

HEALTH_DATA: Final = "Data"
HEALTH_SCHEMA: Final = "Schema"
HEALTH_SHARDS: Final = "Shards"
HEALTH_PER_SHARD: Final = "Sessions per shard"
HEALTH_INDEXES: Final = "Complete indexes"
HEALTH_AGREEMENT: Final = "Lists and counters"
HEALTH_AGREE: Final = "consistent"
HEALTH_ENDED: Final = "Ended sessions"
HEALTH_SIGN_INS: Final = "Sign-in histories, estimated"
HEALTH_ENDED_ALL: Final = "complete"
HEALTH_NONE: Final = "none"


def health_spread(least: str, mean: str, most: str) -> str:
    if least == most:
        return least
    return _("{least} to {most}, mean {mean}").format(least=least, most=most, mean=mean)


health_ended_since: Final = Sentence("complete since {moment}")
health_disagree: Final = Sentence("inconsistent in shard {shards}")
HEALTH_WORKER: Final = "Worker"
HEALTH_LEADER: Final = "Leader"
HEALTH_LEADS_SINCE: Final = "Leader for"
HEALTH_BEAT: Final = "Last heartbeat"
HEALTH_LAST_SWEEP: Final = "Last sweep"
HEALTH_PAUSED: Final = "Sweeping"
HEALTH_SWEEPS: Final = "yes"
HEALTH_NO_WORKER: Final = "no worker has run yet"
HEALTH_GONE: Final = "stopped"
health_ago: Final = Sentence("{ago} ago, {clock}")

# -- Retention ---------------------------------------------------------------------------------------------------------

RETENTION: Final = "Stored personal data, and for how long"
RETENTION_TIME: Final = "Stored for"
RETENTION_SETTING: Final = "Setting"
RETENTION_NOTE: Final = (
    "According to the settings of this dashboard. The site and the worker must use the same settings. Admins can "
    "export or erase a person on the Person page."
)
RETENTION_KINDS: Final = {
    "idle_timeout": "Live session, with name, addresses and device",
    **RETENTION_ENDED,
    "truncate_addresses_after": "Full addresses of ended sessions",
    "keep_people": "Name and last activity of offline people",
    "keep_sign_ins": "The last 50 logins of each person: time, place, device",
    "keep_devices": "Devices that a user has logged in on",
    "keep_failed_logins": "Failed sign-ins",
    "keep_remarks": "Remarks of staff on a person",
    "max_events": "Events: login or end, user, session, time",
    "keep_audit": "Audit log: staff actions, denied attempts, reasons",
    "": "Blocks, block rules, staff records",
    "keep_history_10s": "Counts every 10 s, numbers only",
    "keep_history_1m": "Counts every minute, with the most frequent apps and devices",
    "keep_history_1h": "Counts every hour and day, numbers only",
}
RETENTION_NONE: Final = "not stored"
RETENTION_UNTIL_REMOVED: Final = "until unblocked or removed"
RETENTION_NOT_TRUNCATED: Final = "as long as the session"
retention_live: Final = Sentence("until it ends: {idle} idle, {absolute} at most")
retention_latest: Final = Sentence("the latest {number}")
retention_both: Final = Sentence("{time}, the latest {number} at most")


def retention_truncated(days: int) -> str:
    if not days:
        return _("none; then /24 (IPv4) or /48 (IPv6)")
    return _("{time}; then /24 (IPv4) or /48 (IPv6)").format(time=retention_for(days * 86_400))


def retention_for(seconds: int) -> str:
    """The value of a setting in seconds, in the largest unit that divides it."""
    years, days = seconds // 31_536_000, seconds // 86_400
    if seconds and seconds % 31_536_000 == 0:
        return ngettext("{count} year", "{count} years", years).format(count=years)
    if seconds and seconds % 86_400 == 0:
        return ngettext("{count} day", "{count} days", days).format(count=days)
    if seconds and seconds % 3_600 == 0:
        return _("{count} h").format(count=seconds // 3_600)
    if seconds and seconds % 60 == 0:
        return _("{count} min").format(count=seconds // 60)
    return _("{count} s").format(count=seconds)


# -- Maintenance -------------------------------------------------------------------------------------------------------

HEALTH_MAINTENANCE: Final = "Maintenance"
HEALTH_MAINTENANCE_READ_ONLY: Final = "Only admins can repair data and rebuild indexes."
HEALTH_REPAIR: Final = "Repair"
HEALTH_REINDEX: Final = "Rebuild indexes"
HEALTH_REPAIR_HELP: Final = "Check all data and make lists, counters, indexes and records consistent."
HEALTH_REINDEX_HELP: Final = "Rebuild search indexes and facets."
HEALTH_CONFIRM: Final = {"repair": "Repair the data?", "reindex": "Rebuild the search indexes?"}
HEALTH_ABOUT: Final = {
    "repair": "Checks every session and makes lists, sets, counters, indexes and records consistent again, for example "
    "after a key was lost or an old snapshot was restored. Stale entries are removed. People stay signed in, and "
    "logins continue to work.",
    "reindex": "Rebuilds search indexes and facets for the current settings. Needed after a change of PRESENCE_INDEXES "
    "or PRESENCE_FACETS, or for data of an older version. People stay signed in, and logins continue to work. Searches "
    "may be slower until it is done.",
}
HEALTH_CONTINUES: Final = "It continues if you close this page. It is recorded in the audit log."
health_how_long: Final = Sentence("With {sessions} sessions this takes {time}. It runs in small steps.")
HEALTH_A_FEW_SECONDS: Final = "a few seconds"
health_about: Final = Sentence("about {time}")
HEALTH_BUSY: Final = "Another maintenance task is running. Wait until it has finished."


def health_running(act: str, by: str, since: str) -> str:
    sentence = {
        "repair": _("Repairing data, started by {by} {since} ago"),
        "reindex": _("Rebuilding indexes, started by {by} {since} ago"),
    }[act]
    return sentence.format(by=by, since=since)


health_visited: Final = Sentence("{done} of {total} sessions checked")


def health_repaired(repaired: int, expired: int) -> str:
    if not repaired and not expired:
        return _("Nothing had to be repaired.")
    entries = ngettext("1 entry was repaired.", "{count} entries were repaired.", repaired)
    ended = _("Sessions that had expired: {count}.").format(count=number(expired)) if expired else ""
    return f"{entries.format(count=number(repaired))} {ended}".strip()


def health_ended(act: str, ago: str, result: str) -> str:
    done = {"repair": _("Data repaired {ago} ago."), "reindex": _("Indexes rebuilt {ago} ago.")}[act]
    return f"{done.format(ago=ago)} {result}"


def health_gave_up(act: str, ago: str, error: str) -> str:
    failed = {
        "repair": _("The repair failed {ago} ago. Start it again."),
        "reindex": _("The rebuild of indexes failed {ago} ago. Start it again."),
    }[act]
    return f"{failed.format(ago=ago)} {error}"


HEALTH_NOT_AUDITED: Final = "It could not be recorded in the audit log."
