"""What the facts of each server mean that `health` has gathered, and what to do about them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from presence_core.models import Finding, NodeHealth, SentinelHealth
from presence_core.operations.upkeep import FLOORS
from presence_core.settings import Settings

CLOCK_SECONDS: Final = 5


def of_servers(nodes: Sequence[NodeHealth], settings: Settings) -> Iterator[Finding]:
    """What holds of all is told once; what holds of some names them."""
    where: dict[Finding, list[str]] = {}
    for node in nodes:
        for judge in _JUDGES:
            for finding in judge(node, settings):
                where.setdefault(finding, []).append(node.address)
    for finding, addresses in where.items():
        if len(addresses) == len(nodes):
            yield finding
        else:
            yield replace(finding, text=f"{', '.join(addresses)}: {finding.text}")


def of_sentinels(nodes: Sequence[NodeHealth], sentinels: SentinelHealth | None) -> Iterator[Finding]:
    """Whether a master that Sentinels replace stops in time."""
    if sentinels is None:
        return
    for node in nodes:
        yield from _fence(node, sentinels.down_after)
    if sentinels.named < sentinels.known:
        yield Finding(
            "warning",
            "sentinel",
            f"The URL names {sentinels.named} of {sentinels.known} Sentinels: a part of them may not know the master.",
            "Name all of them in PRESENCE_REDIS_URL.",
        )
    elif sentinels.named < 3:
        yield Finding(
            "warning",
            "sentinel",
            f"There are fewer than three Sentinels ({sentinels.named}): while one is away, every call may be refused.",
            "Run three, or more.",
        )
    if sentinels.answering < sentinels.named:
        yield Finding(
            "warning",
            "sentinel",
            f"{sentinels.named - sentinels.answering} of {sentinels.named} Sentinels do not answer.",
            "Start them: without a majority of them, every call is refused.",
        )


def _fence(node: NodeHealth, down_after: float) -> Iterator[Finding]:
    lag = max(1, min(10, int(down_after) - 2))
    if node.is_fenced is None:
        yield Finding(
            "note",
            "sentinel",
            "Whether min-replicas-to-write is set could not be checked.",
            f"See to it that it is 1, and min-replicas-max-lag {lag}, on every server.",
        )
    elif not node.is_fenced:
        yield Finding(
            "error",
            "sentinel",
            "min-replicas-to-write is 0: a master that is cut off takes changes, which are lost once it is replaced.",
            f"Set min-replicas-to-write 1 and min-replicas-max-lag {lag} on every server.",
        )
    elif node.max_lag is None:
        yield Finding(
            "note",
            "sentinel",
            "min-replicas-max-lag could not be checked: the server does not permit CONFIG GET.",
            f"See to it that it is below down-after-milliseconds ({down_after:g} s) on every server.",
        )
    elif node.max_lag >= down_after:
        yield Finding(
            "error",
            "sentinel",
            f"min-replicas-max-lag is {node.max_lag} s, but Sentinels may replace a master after {down_after:g} s: in "
            "between it still takes changes, which will be lost.",
            f"Set min-replicas-max-lag {lag} on every server.",
        )
    else:
        yield Finding(
            "ok",
            "sentinel",
            f"A master that is cut off takes no changes after {node.max_lag} s or a little more; Sentinels may replace "
            f"it after {down_after:g} s.",
        )


def is_too_old(node: NodeHealth) -> bool:
    """Below what the library needs; False where it does not tell."""
    floor = next((floor for _, kind, floor in FLOORS if kind == node.kind), (0,))
    try:
        return tuple(int(part) for part in (node.version or "").split(".")[:2]) < floor
    except ValueError:
        return False


def _version(node: NodeHealth, settings: Settings) -> Iterator[Finding]:
    if node.version is None:
        yield Finding(
            "note",
            "version",
            "The server does not tell about itself (INFO): its version, memory, eviction and "
            "persistence are not known.",
            "Permit INFO (+info), or look at them yourself.",
        )
    elif is_too_old(node):
        yield Finding(
            "error", "version", f"This is {node.kind} {node.version}.", "Use Redis 7.0 or Valkey 7.2, or newer."
        )
    else:
        yield Finding("ok", "version", f"{node.kind} {node.version}.")


def _eviction(node: NodeHealth, settings: Settings) -> Iterator[Finding]:
    policy, advice = node.maxmemory_policy, "Set maxmemory-policy noeviction."
    level = "error" if node.maxmemory else "warning"
    when = "When memory is full" if node.maxmemory else "Should maxmemory be set one day,"
    if policy is None:
        if node.version is not None:
            yield Finding(
                "note", "eviction", "The server does not tell its maxmemory-policy.", "See to it that it is noeviction."
            )
    elif policy == "noeviction":
        yield Finding("ok", "eviction", "Nothing is evicted (noeviction).")
    elif not policy.startswith("volatile"):
        yield Finding(
            level,
            "eviction",
            f"{when} {policy} drops keys at will: lists without their sessions, sessions "
            "without their lists, people signed out.",
            advice,
        )
    elif settings.record_ttl:
        yield Finding(
            level,
            "eviction",
            f"{when} {policy} drops live sessions, which have a time to live.",
            "Set maxmemory-policy noeviction; or, where you may not, record_ttl=False in every process.",
        )
    else:
        yield Finding(
            "note",
            "eviction",
            f"{when} {policy} drops what is kept of ended sessions, notes and counts over "
            "time; live sessions stay (record_ttl=False).",
            "If you may, set maxmemory-policy noeviction.",
        )
    if node.evicted_keys:
        yield Finding(
            "warning",
            "eviction",
            f"{node.evicted_keys:,} keys have been evicted since the server was started.",
            "Run presence repair when it does not evict any more.",
        )


def _memory(node: NodeHealth, settings: Settings) -> Iterator[Finding]:
    used, limit = node.used_memory, node.maxmemory
    if used is None:
        return
    if not limit:
        yield Finding("ok", "memory", f"{_size(used)} in use, no limit set.")
        return
    share = used / limit
    level = "error" if share >= 0.95 else "warning" if share >= 0.8 else "ok"
    advice = None if level == "ok" else "Raise maxmemory: where it is full, logins are refused."
    yield Finding(level, "memory", f"{_size(used)} of {_size(limit)} in use ({share:.0%}).", advice)


def _size(number: float) -> str:
    for unit in ("B", "kB", "MB"):
        if number < 1000:
            return f"{number:.0f} {unit}"
        number /= 1000
    return f"{number:.1f} GB"


def _persistence(node: NodeHealth, settings: Settings) -> Iterator[Finding]:
    advice = "Set appendonly yes, appendfsync everysec."
    if node.aof_enabled is None:
        if node.version is not None:
            yield Finding("note", "persistence", "The server does not tell whether it keeps its data on disk.")
    elif node.aof_enabled and node.aof_ok is False:
        yield Finding(
            "error", "persistence", "The append-only file cannot be written.", "Look at the server's disk and log."
        )
    elif node.aof_enabled:
        yield Finding("ok", "persistence", "Changes are kept in an append-only file.")
    elif node.snapshots is False:
        yield Finding("warning", "persistence", "Nothing is kept on disk: a restart logs everybody out.", advice)
    elif node.snapshots is None:
        yield Finding(
            "note",
            "persistence",
            "There is no append-only file, and the server does not tell whether it takes "
            "snapshots: without them a restart logs everybody out.",
            advice,
        )
    else:
        yield Finding(
            "note",
            "persistence",
            "There are only snapshots: a crash brings back who was online at the last one, "
            "and ends that came later are undone.",
            advice,
        )
    if node.save_ok is False:
        yield Finding(
            "warning",
            "persistence",
            "The last snapshot failed; Redis may refuse all writes until one goes well.",
            "Look at the server's disk and log.",
        )


def _replication(node: NodeHealth, settings: Settings) -> Iterator[Finding]:
    if node.role == "replica":
        link = "" if node.link_up is not False else ", and it does not hear its master"
        yield Finding("error", "replication", f"This is a replica: it takes no writes{link}.", "Connect to the master.")
    elif node.replicas is not None and node.replicas_online is not None:
        missing = node.replicas - node.replicas_online
        if missing:
            yield Finding(
                "warning", "replication", f"{missing} of {node.replicas} replicas do not follow.", "Look at their logs."
            )
        else:
            has = f"{node.replicas} {'follows' if node.replicas == 1 else 'follow'}" if node.replicas else "none"
            yield Finding("ok", "replication", f"Replicas: {has}.")


def _clock(node: NodeHealth, settings: Settings) -> Iterator[Finding]:
    if node.clock_offset is None:
        return
    off = abs(node.clock_offset)
    if off > CLOCK_SECONDS:
        way = "ahead of" if node.clock_offset > 0 else "behind"
        yield Finding(
            "note",
            "clock",
            f"Redis's clock is {off:,.0f} s {way} this machine's: sessions go by Redis's alone, but "
            "“x ago” on a page of this machine is wrong.",
            "Let NTP set both.",
        )
    else:
        yield Finding("ok", "clock", f"Redis's clock and this machine's agree within {CLOCK_SECONDS} s.")


_JUDGES: Final[tuple[Callable[[NodeHealth, Settings], Iterator[Finding]], ...]] = (
    _version,
    _eviction,
    _memory,
    _persistence,
    _replication,
    _clock,
)
