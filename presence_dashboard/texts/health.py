"""The Health page. The only page that names Redis, workers, shards and indexes."""

from __future__ import annotations

from typing import Final

# -- Summary -----------------------------------------------------------------------------------------------------------

HEALTH_LEVELS: Final = {"ok": "OK", "note": "Note", "warning": "Warning", "error": "Error"}
HEALTH_HEADLINES: Final = {
    "ok": "**All checks passed.**",
    "note": "**All checks passed,** with notes.",
    "warning": "**Attention needed.** Everything works for now. Fix the warnings below before it stops working.",
    "error": "**A check failed.** The service is affected now.",
}


def health_as_of(age: str) -> str:
    return f"Updated {age} ago."


def health_passed(count: int) -> str:
    return f"Checks passed ({count})"


def health_advice(advice: str) -> str:
    return f"What to do: {advice}"


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
    return f"{value:.0f} ms" if value >= 100 else f"{value:.1f} ms" if value >= 10 else f"{value:.2f} ms"


def health_seconds(value: float) -> str:
    return f"{value:,.1f} s"


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
    return f"last {ago} ago" if went_well else f"failing, last {ago} ago"


def health_replicas(online: int, of: int) -> str:
    return f"{online} of {of} connected" if of else "none"


def health_offset(seconds: float) -> str:
    return "0 s" if abs(seconds) < 1 else f"{abs(seconds):.0f} s {'ahead' if seconds > 0 else 'behind'}"


# -- Data and worker ---------------------------------------------------------------------------------------------------

HEALTH_DATA: Final = "Data"
HEALTH_USERS: Final = "Users, as of the last sweep"
HEALTH_SCHEMA: Final = "Schema"
HEALTH_SHARDS: Final = "Shards"
HEALTH_PER_SHARD: Final = "Sessions per shard"
HEALTH_INDEXES: Final = "Complete indexes"
HEALTH_AGREEMENT: Final = "Lists and counters"
HEALTH_AGREE: Final = "consistent"
HEALTH_ENDED: Final = "Ended sessions"
HEALTH_ENDED_ALL: Final = "complete"
HEALTH_NONE: Final = "none"


def health_spread(least: str, mean: str, most: str) -> str:
    return least if least == most else f"{least} to {most}, mean {mean}"


def health_ended_since(moment: str) -> str:
    return f"complete since {moment}"


def health_disagree(shards: str) -> str:
    return f"inconsistent in shard {shards}"


HEALTH_WORKER: Final = "Worker"
HEALTH_LEADER: Final = "Leader"
HEALTH_LEADS_SINCE: Final = "Leader for"
HEALTH_BEAT: Final = "Last heartbeat"
HEALTH_LAST_SWEEP: Final = "Last sweep"
HEALTH_PAUSED: Final = "Sweeping"
HEALTH_SWEEPS: Final = "yes"
HEALTH_NO_WORKER: Final = "no worker has run yet"
HEALTH_GONE: Final = "stopped"


def health_ago(ago: str, clock: str) -> str:
    return f"{ago} ago, {clock}"


# -- Retention ---------------------------------------------------------------------------------------------------------

RETENTION: Final = "Stored personal data, and for how long"
RETENTION_DATA: Final = "Data"
RETENTION_TIME: Final = "Stored for"
RETENTION_SETTING: Final = "Setting"
RETENTION_NOTE: Final = (
    "According to the settings of this dashboard. The site and the worker must use the same settings. Admins can "
    "export or erase a person on the Person page."
)
RETENTION_KINDS: Final = {
    "idle_timeout": "Live session, with name, addresses and device",
    "keep_kicked": "Ended session: kicked",
    "keep_replaced": "Ended session: replaced",
    "keep_expired": "Ended session: expired",
    "keep_logout": "Ended session: signed out",
    "truncate_addresses_after": "Full addresses of ended sessions",
    "keep_people": "Name and last activity of offline people",
    "keep_devices": "Devices that a user has logged in on",
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


def retention_live(idle: str, absolute: str) -> str:
    return f"until it ends: {idle} idle, {absolute} at most"


def retention_latest(number: str) -> str:
    return f"the latest {number}"


def retention_both(time: str, number: str) -> str:
    return f"{time}, the latest {number} at most"


def retention_truncated(days: int) -> str:
    return f"{retention_for(days * 86_400) if days else 'none'}; then /24 (IPv4) or /48 (IPv6)"


def retention_for(seconds: int) -> str:
    """The value of a setting in seconds, in the largest unit that divides it."""
    for size, one, many in (
        (31_536_000, "year", "years"),
        (86_400, "day", "days"),
        (3_600, "h", "h"),
        (60, "min", "min"),
    ):
        if seconds and seconds % size == 0:
            return f"{seconds // size} {one if seconds == size else many}"
    return f"{seconds} s"


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


def health_how_long(sessions: str, time: str) -> str:
    return f"With {sessions} sessions this takes {time}. It runs in small steps."


HEALTH_A_FEW_SECONDS: Final = "a few seconds"


def health_about(time: str) -> str:
    return f"about {time}"


HEALTH_BUSY: Final = "Another maintenance task is running. Wait until it has finished."


def health_running(act: str, by: str, since: str) -> str:
    doing = {"repair": "Repairing data", "reindex": "Rebuilding indexes"}[act]
    return f"{doing}, started by {by} {since} ago"


def health_visited(done: str, total: str) -> str:
    return f"{done} of {total} sessions checked"


def health_repaired(repaired: int, expired: int) -> str:
    if not repaired and not expired:
        return "Nothing had to be repaired."
    entries = "1 entry was" if repaired == 1 else f"{repaired:,} entries were"
    ended = f" Sessions that had expired: {expired:,}." if expired else ""
    return f"{entries} repaired.{ended}"


def health_ended(act: str, ago: str, result: str) -> str:
    done = {"repair": "Data repaired", "reindex": "Indexes rebuilt"}[act]
    return f"{done} {ago} ago. {result}"


def health_gave_up(act: str, ago: str, error: str) -> str:
    task = {"repair": "The repair", "reindex": "The rebuild of indexes"}[act]
    return f"{task} failed {ago} ago. Start it again. {error}"


HEALTH_NOT_AUDITED: Final = "It could not be recorded in the audit log."
