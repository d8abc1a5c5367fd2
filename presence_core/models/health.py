"""How the servers, the data and the upkeep are, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from presence_core.models.history import WorkerStatus

LEVELS: Final = ("ok", "note", "warning", "error")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at, in words."""

    level: str  #: "ok", "note" (worth knowing), "warning" (will hurt one day) or "error" (hurts now)
    subject: str  #: "version", "permissions", "eviction", "memory", "persistence", "replication", "clock", …
    text: str  #: what is, one sentence
    advice: str | None = None  #: what to do, one sentence; None where there is nothing to do


@dataclass(frozen=True, slots=True)
class Spread:
    """How evenly something is spread."""

    least: int
    mean: float
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeHealth:
    """One server. What it does not tell, or does not let us ask, is None."""

    address: str  #: host and port, or the socket's path
    kind: str | None = None  #: "Redis" or "Valkey"
    version: str | None = None  #: its own, as it says it: "9.1.2"
    role: str | None = None  #: "master" or "replica"
    uptime: int | None = None  #: seconds
    latency_ms: float | None = None  #: a round trip of PING as the caller sees it, the middle one of three
    time: datetime | None = None  #: its clock
    clock_offset: float | None = None  #: how many seconds its clock is ahead of the caller's
    used_memory: int | None = None  #: bytes
    maxmemory: int | None = None  #: bytes; 0: no limit
    maxmemory_policy: str | None = None
    evicted_keys: int | None = None  #: since it was started, of all its databases
    aof_enabled: bool | None = None
    aof_ok: bool | None = None  #: the last write to its append-only file went well
    snapshots: bool | None = None  #: it takes snapshots by itself; only asked where there is no append-only file
    saved_at: datetime | None = None  #: when it last saved a snapshot, or was started
    save_ok: bool | None = None  #: the last snapshot went well
    unsaved_changes: int | None = None  #: changes since then
    clients: int | None = None  #: connections
    replicas: int | None = None  #: of a master
    replicas_online: int | None = None  #: those that follow
    link_up: bool | None = None  #: of a replica: it hears its master
    is_fenced: bool | None = None  #: without enough replicas it takes no changes (min-replicas-to-write above 0)
    max_lag: int | None = None  #: seconds, min-replicas-max-lag; only asked behind Sentinel, where it is fenced
    shards: int | None = None  #: of this namespace, that it serves


@dataclass(frozen=True, slots=True)
class SentinelHealth:
    """The Sentinels that name the master."""

    named: int  #: in the URL
    answering: int  #: of those, just now
    known: int  #: in all, as they say
    down_after: float  #: seconds without an answer after which they may replace the master; the shortest


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """How a namespace and its servers are. What could not be found out is None, and a finding says why."""

    nodes: tuple[NodeHealth, ...]
    findings: tuple[Finding, ...]  #: the worst first
    schema: int | None = None  #: of the layout
    shards: int | None = None
    users: int | None = None  #: as of the last sweep
    sessions: int | None = None
    sessions_per_shard: Spread | None = None
    keys_per_shard: Spread | None = None  #: on a cluster: of its slot, what others have put there included
    shards_per_node: Spread | None = None
    indexes: tuple[str, ...] | None = None  #: search indexes that are whole
    indexes_wanted: tuple[str, ...] = ()  #: those that the settings name
    disagreeing: tuple[int, ...] | None = None  #: shards whose lists or counters do not agree with one another
    worker: WorkerStatus | None = None  #: None where none has ever run
    lag_seconds: float | None = None  #: how long the session that is due the longest waits for a sweep
    swept_at: datetime | None = None  #: when a sweep last ran to its end
    sentinels: SentinelHealth | None = None  #: None where the URL names none
    ended_complete_since: datetime | None = None  #: older ends may have gone before their time; None: all are there

    @property
    def level(self) -> str:
        """The worst of the findings."""
        return max((one.level for one in self.findings), key=LEVELS.index, default="ok")
