"""Prices of managed Valkey, on demand, in US dollars. Each has its source and date: prices change, so check them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

HOURS: Final = 730
"""Hours of a month."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node type."""

    name: str
    gb: float  #: for data, after what the service reserves
    dollars: float  #: an hour


@dataclass(frozen=True, slots=True)
class Service:
    """A managed service in one region."""

    title: str
    most_nodes: int  #: of a cluster, replicas included
    source: str
    nodes: tuple[Node, ...]


GIB: Final = 1.0737
RESERVED: Final = 0.25
"""`reserved-memory-percent` of ElastiCache, for snapshots and failovers."""

SERVICES: Final = (
    Service(
        "Amazon ElastiCache for Valkey, us-east-1",
        500,
        "AWS Price List API, read on 2026-10-02",
        tuple(
            Node(name, round(gib * GIB * (1 - RESERVED), 1), dollars)
            for name, gib, dollars in (
                ("cache.m7g.large", 6.38, 0.1264),
                ("cache.r7g.large", 13.07, 0.1752),
                ("cache.r7g.xlarge", 26.32, 0.3496),
            )
        ),
    ),
    Service(
        "Google Memorystore for Valkey, us-central1",
        250,
        "Cloud Billing Catalog, August 2026",
        (
            Node("standard-small", 5.2, 0.1425),
            Node("highmem-medium", 10.4, 0.1923),
            Node("highmem-xlarge", 46.4, 0.8581),
        ),
    ),
)
