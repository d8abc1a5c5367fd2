"""Real Redis servers for tests and benchmarks: a single one, a cluster, or a master under Sentinel.

Everything runs from a bare server binary on loopback ports or unix sockets, and stores nothing on disk unless asked.
Each start makes its own processes: give each its own directory.
"""

from __future__ import annotations

from tests.support.servers.binaries import HOST, KEEPS_ALL, missing, redis_binary, valkey_binary
from tests.support.servers.cluster import Cluster
from tests.support.servers.sentinels import SentinelProcess, Sentinels
from tests.support.servers.server import SYNC_AT_ONCE, Server, in_sync
from tests.support.servers.waiting import free_port, wait_for

__all__ = [
    "HOST", "KEEPS_ALL", "SYNC_AT_ONCE", "Cluster", "SentinelProcess", "Sentinels", "Server", "free_port", "in_sync",
    "missing", "redis_binary", "valkey_binary", "wait_for",
]  # fmt: skip
