"""The state of the servers, the data and the maintenance, with advice."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from presence_core.models.choices import LEVELS, FindingLevel
from presence_core.models.history import WorkerStatus


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check, in words."""

    level: FindingLevel
    subject: str  #: "version", "permissions", "eviction", "memory", "persistence", "replication", "clock", …
    text: str  #: the result, one sentence
    advice: str | None = None  #: what to do, one sentence; None: nothing


@dataclass(frozen=True, slots=True)
class Spread:
    """How evenly something is distributed."""

    least: int
    mean: float
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeHealth:
    """One server. What it does not tell, or does not permit to ask, is None."""

    address: str  #: host and port, or the socket's path
    kind: str | None = None  #: "Redis" or "Valkey"
    version: str | None = None  #: of the server, such as "9.1.2"
    role: str | None = None  #: "master" or "replica"
    uptime: int | None = None  #: seconds
    latency_ms: float | None = None  #: a round trip of PING, the median of three
    time: datetime | None = None  #: its clock
    clock_offset: float | None = None  #: how many seconds its clock is ahead of the caller's
    used_memory: int | None = None  #: bytes
    maxmemory: int | None = None  #: bytes; 0: no limit
    maxmemory_policy: str | None = None
    evicted_keys: int | None = None  #: since its start, in all its databases
    aof_enabled: bool | None = None
    aof_ok: bool | None = None  #: whether the last write to its append-only file succeeded
    snapshots: bool | None = None  #: it takes snapshots regularly; only asked without an append-only file
    saved_at: datetime | None = None  #: when it last saved a snapshot, or started
    save_ok: bool | None = None  #: whether the last snapshot succeeded
    unsaved_changes: int | None = None  #: changes since then
    clients: int | None = None  #: connections
    replicas: int | None = None  #: of a master
    replicas_online: int | None = None  #: of these, the connected ones
    link_up: bool | None = None  #: of a replica: connected to its master
    is_fenced: bool | None = None  #: min-replicas-to-write is above 0: without enough replicas it refuses writes
    max_lag: int | None = None  #: min-replicas-max-lag, seconds; only read behind Sentinel, if is_fenced
    shards: int | None = None  #: of this namespace, that it serves


@dataclass(frozen=True, slots=True)
class SentinelHealth:
    """The Sentinels that name the master."""

    named: int  #: in the URL
    answering: int  #: of these, the ones that answer now
    known: int  #: in all, as they report
    down_after: float  #: seconds without a reply after which they may replace the master; the shortest


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The state of a namespace and its servers. What could not be read is None, and a finding says why."""

    nodes: tuple[NodeHealth, ...]
    findings: tuple[Finding, ...]  #: worst first
    schema: int | None = None  #: of the layout
    shards: int | None = None
    users: int | None = None
    sessions: int | None = None
    sessions_per_shard: Spread | None = None
    keys_per_shard: Spread | None = None  #: on a cluster: of its slot, with the keys of other programs
    shards_per_node: Spread | None = None
    indexes: tuple[str, ...] | None = None  #: search indexes that are complete
    indexes_wanted: tuple[str, ...] = ()  #: those in the settings
    disagreeing: tuple[int, ...] | None = None  #: shards that need a repair: their lists or counters differ
    worker: WorkerStatus | None = None  #: None: none has ever run
    lag_seconds: float | None = None  #: how long the oldest overdue session has waited for a sweep
    swept_at: datetime | None = None  #: when a sweep last ran to its end
    sentinels: SentinelHealth | None = None  #: None: the URL names none
    ended_complete_since: datetime | None = None  #: older ended sessions may be missing; None: all are listed
    sign_ins_memory: int | None = None  #: bytes of all sign-in histories, estimated; None: there is none

    @property
    def level(self) -> FindingLevel:
        """The worst level among the findings."""
        return max((finding.level for finding in self.findings), key=LEVELS.index, default="ok")
