"""What the facts of each server mean, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from presence_core.models import Finding, FindingLevel, NodeHealth, SentinelHealth
from presence_core.operations.server_info import Version
from presence_core.settings import Settings

CLOCK_SECONDS: Final = 5
RECORD_MARGIN: Final = 86_400
"""By how many seconds a record outlives its session: a clock that is ahead by less deletes no live one."""


def is_too_old(node: NodeHealth) -> bool:
    """Below what the library needs; False where the server does not report its version."""
    return node.kind is not None and node.version is not None and Version(node.kind, node.version).is_too_old


def of_servers(nodes: Sequence[NodeHealth], settings: Settings) -> Iterator[Finding]:
    """A finding that holds for all servers is reported once; one that holds for some names them."""
    addresses_of: dict[Finding, list[str]] = {}
    for node in nodes:
        for rule in _RULES:
            for finding in rule(node, settings):
                addresses_of.setdefault(finding, []).append(node.address)
    for finding, addresses in addresses_of.items():
        if len(addresses) == len(nodes):
            yield finding
        else:
            yield replace(finding, text=f"{', '.join(addresses)}: {finding.text}")


# -- Sentinel ---------------------------------------------------------------------------------------------------------


def of_sentinels(nodes: Sequence[NodeHealth], sentinels: SentinelHealth | None) -> Iterator[Finding]:
    """Whether a master stops taking changes before Sentinels replace it, and whether there are enough Sentinels."""
    if sentinels is None:
        return
    for node in nodes:
        yield _of_fence(node, sentinels.down_after)
    named, answering = sentinels.named, sentinels.answering
    if named < sentinels.known:
        text = f"The URL names {named} of {sentinels.known} Sentinels: a part of them may not know the master."
        yield Finding("warning", "sentinel", text, "Name all of them in PRESENCE_REDIS_URL.")
    elif named < 3:
        text = f"There are fewer than three Sentinels ({named}): while one is away, every call may be refused."
        yield Finding("warning", "sentinel", text, "Run three or more.")
    if answering < named:
        text = f"{named - answering} of {named} Sentinels do not reply."
        yield Finding("warning", "sentinel", text, "Start them: without a majority of them, every call is refused.")


def _of_fence(node: NodeHealth, down_after: float) -> Finding:
    lag = max(1, min(10, int(down_after) - 2))
    if node.is_fenced is None:
        text = "min-replicas-to-write could not be checked."
        advice = f"Make sure that it is 1, and min-replicas-max-lag {lag}, on every server."
        return Finding("note", "sentinel", text, advice)
    if not node.is_fenced:
        text = "min-replicas-to-write is 0: a master that is cut off takes changes, which are lost once it is replaced."
        advice = f"Set min-replicas-to-write 1 and min-replicas-max-lag {lag} on every server."
        return Finding("error", "sentinel", text, advice)
    if node.max_lag is None:
        text = "min-replicas-max-lag could not be checked: the server does not permit CONFIG GET."
        advice = f"Make sure that it is below down-after-milliseconds ({down_after:g} s) on every server."
        return Finding("note", "sentinel", text, advice)
    if node.max_lag >= down_after:
        text = (
            f"min-replicas-max-lag is {node.max_lag} s, but Sentinels may replace a master after {down_after:g} s: in "
            "between it still takes changes, which will be lost."
        )
        return Finding("error", "sentinel", text, f"Set min-replicas-max-lag {lag} on every server.")
    return Finding(
        "ok",
        "sentinel",
        f"A master that is cut off takes no changes after {node.max_lag} s or a little more; Sentinels may replace it "
        f"after {down_after:g} s.",
    )


# -- each server ------------------------------------------------------------------------------------------------------


def _of_version(node: NodeHealth, settings: Settings) -> Iterator[Finding]:
    if node.version is None:
        text = "The server does not permit INFO: its version, memory, eviction and persistence are unknown."
        yield Finding("note", "version", text, "Permit INFO (+info), or check them yourself.")
    elif is_too_old(node):
        text = f"This is {node.kind} {node.version}."
        yield Finding("error", "version", text, "Use Redis 7.0 or Valkey 7.2, or newer.")
    else:
        yield Finding("ok", "version", f"{node.kind} {node.version}.")


def _of_eviction(node: NodeHealth, settings: Settings) -> Iterator[Finding]:
    if node.maxmemory_policy is not None:
        yield _of_policy(node, node.maxmemory_policy, settings)
    elif node.version is not None:
        text = "The server does not report its maxmemory-policy."
        yield Finding("note", "eviction", text, "Make sure that it is noeviction.")
    if node.evicted_keys:
        text = f"{node.evicted_keys:,} keys have been evicted since the server started."
        yield Finding("warning", "eviction", text, "Run presence repair once it no longer evicts keys.")


def _of_policy(node: NodeHealth, policy: str, settings: Settings) -> Finding:
    level: FindingLevel = "error" if node.maxmemory else "warning"
    when = "When memory is full," if node.maxmemory else "If maxmemory is ever set,"
    advice = "Set maxmemory-policy noeviction."
    if policy == "noeviction":
        return Finding("ok", "eviction", "No keys are evicted (noeviction).")
    if not policy.startswith("volatile"):
        text = f"{when} {policy} may delete any key, so that sessions disappear and users are signed out."
        return Finding(level, "eviction", text, advice)
    if settings.record_ttl:
        text = f"{when} {policy} evicts live sessions, because they have a time to live."
        advice = "Set maxmemory-policy noeviction; where you cannot, set record_ttl=False in every process."
        return Finding(level, "eviction", text, advice)
    text = f"{when} {policy} evicts ended sessions, notes and history; live sessions stay (record_ttl=False)."
    return Finding("note", "eviction", text, "If you can, set maxmemory-policy noeviction.")


def _of_memory(node: NodeHealth, settings: Settings) -> Iterator[Finding]:
    used, limit = node.used_memory, node.maxmemory
    if used is None:
        return
    if not limit:
        yield Finding("ok", "memory", f"{_size(used)} in use, no limit set.")
        return
    share = used / limit
    level: FindingLevel = "error" if share >= 0.95 else "warning" if share >= 0.8 else "ok"
    advice = None if level == "ok" else "Raise maxmemory: when memory is full, logins are refused."
    yield Finding(level, "memory", f"{_size(used)} of {_size(limit)} in use ({share:.0%}).", advice)


def _size(number: float) -> str:
    for unit in ("B", "kB", "MB"):
        if number < 1000:
            return f"{number:.0f} {unit}"
        number /= 1000
    return f"{number:.1f} GB"


def _of_persistence(node: NodeHealth, settings: Settings) -> Iterator[Finding]:
    advice = "Set appendonly yes and appendfsync everysec."
    if node.aof_enabled is None:
        if node.version is not None:
            yield Finding("note", "persistence", "The server does not report whether it stores its data on disk.")
    elif node.aof_enabled and node.aof_ok is False:
        text = "The append-only file cannot be written."
        yield Finding("error", "persistence", text, "Check the server's disk and log.")
    elif node.aof_enabled:
        yield Finding("ok", "persistence", "Changes are stored in an append-only file.")
    elif node.snapshots is False:
        text = "Nothing is kept on disk: a restart logs everybody out."
        yield Finding("warning", "persistence", text, advice)
    elif node.snapshots is None:
        text = (
            "There is no append-only file, and the server does not report whether it takes snapshots: without them a "
            "restart logs everybody out."
        )
        yield Finding("note", "persistence", text, advice)
    else:
        text = "There are only snapshots: a crash restores the last one, and sessions that ended since are live again."
        yield Finding("note", "persistence", text, advice)
    if node.save_ok is False:
        text = "The last snapshot failed; Redis may refuse all writes until a snapshot succeeds."
        yield Finding("warning", "persistence", text, "Check the server's disk and log.")


def _of_replication(node: NodeHealth, settings: Settings) -> Iterator[Finding]:
    if node.role == "replica":
        link = ", and it has lost its master" if node.link_up is False else ""
        text = f"This is a replica: it takes no writes{link}."
        yield Finding("error", "replication", text, "Connect to the master.")
    elif node.replicas is not None and node.replicas_online is not None:
        missing = node.replicas - node.replicas_online
        if node.is_fenced and not node.replicas_online:
            text = "min-replicas-to-write is set, but no replica is online: logins and kicks are refused."
            yield Finding("error", "replication", text, "Start a replica, or check its log.")
        elif missing:
            text = f"{missing} of {node.replicas} replicas are not online."
            yield Finding("warning", "replication", text, "Check their logs.")
        else:
            yield Finding("ok", "replication", f"Replicas online: {node.replicas}.")


def _of_clock(node: NodeHealth, settings: Settings) -> Iterator[Finding]:
    if node.clock_offset is None:
        return
    off = abs(node.clock_offset)
    if node.clock_offset > RECORD_MARGIN and settings.record_ttl:
        text = (
            f"Redis's clock is {off:,.0f} s ahead of this machine's. Redis deletes a session's record a day after its "
            "absolute timeout, by that clock: these users are signed out, also when the clock is right again."
        )
        yield Finding("error", "clock", text, "Set Redis's clock now. record_ttl=False keeps records from that.")
    elif off > CLOCK_SECONDS:
        way = "ahead of" if node.clock_offset > 0 else "behind"
        text = (
            f"Redis's clock is {off:,.0f} s {way} this machine's: sessions use Redis's clock alone, but “x ago” on a "
            "page of this machine is wrong."
        )
        yield Finding("note", "clock", text, "Let NTP set both.")
    else:
        yield Finding("ok", "clock", f"Redis's clock and this machine's agree within {CLOCK_SECONDS} s.")


_RULES: Final[tuple[Callable[[NodeHealth, Settings], Iterator[Finding]], ...]] = (
    _of_version,
    _of_eviction,
    _of_memory,
    _of_persistence,
    _of_replication,
    _of_clock,
)
