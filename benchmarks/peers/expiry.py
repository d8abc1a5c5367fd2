"""All sessions past their deadline at once: how long other clients of the server wait while the sessions are
removed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final

from benchmarks.measure import Json
from benchmarks.peers.driver import Peer, PeerServer

PAUSE: Final = 0.001
"""Seconds between two PINGs of the probe."""

LOG_US: Final = 1000

TTL: Final = "Redis: it removes them by TTL, and sends no event"


@dataclass(slots=True)
class Probe:
    """Another client of the same server, which sends PINGs and times the replies."""

    ms: list[float] = field(default_factory=list)

    @contextmanager
    def running(self, server: PeerServer) -> Iterator[None]:
        over = threading.Event()
        client = server.client(0)
        client.ping()

        def ping() -> None:
            while not self.ms or not over.wait(PAUSE):
                begun = time.perf_counter_ns()
                client.ping()
                self.ms.append((time.perf_counter_ns() - begun) / 1e6)

        thread = threading.Thread(target=ping)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            client.close()

    def figures(self) -> Json:
        ordered = sorted(self.ms)
        return {
            "p50_ping_ms": round(median(ordered), 2),
            "p99_ping_ms": round(ordered[int(len(ordered) * 0.99)], 2),
            "worst_ping_ms": round(ordered[-1], 2),
            "pings": len(ordered),
        }


def idle(server: PeerServer, seconds: float) -> Json:
    """The probe's times on an idle server: every figure below contains them."""
    probe = Probe()
    with probe.running(server):
        time.sleep(seconds)
    return probe.figures()


def expire(server: PeerServer, peer: Peer) -> Json:
    """End all sessions of the peer. Those that Redis removes by TTL all get the same time, shortly ahead."""
    count: int = peer.redis.dbsize()
    by_ttl = not peer.can("expire")
    moment = _one_moment(peer.redis, count) if by_ttl else 0.0
    if not by_ttl:
        peer.do("past", [None])
    server.redis.config_set("slowlog-log-slower-than", LOG_US)
    server.redis.config_set("latency-monitor-threshold", 1)
    if by_ttl:
        time.sleep(max(0.0, moment - time.time() - 0.05))
    server.redis.slowlog_reset()
    server.redis.execute_command("LATENCY RESET")
    waited, probe, begun = server.waited_us(), Probe(), time.perf_counter()
    with probe.running(server):
        if by_ttl:
            _gone(peer.redis)
        else:
            [left] = peer.do("expire", [None]).answers
            assert left <= 1, f"{peer.kind.title} left {left}"
    took = time.perf_counter() - begun
    slow, cycle = _longest(server.redis)
    server.redis.config_set("latency-monitor-threshold", 0)
    return {
        "by": TTL if by_ttl else peer.how["expire"],
        "keys": count,
        "worst_block_ms": round(max(slow[0], cycle), 2),
        "longest_command_ms": round(slow[0], 2),
        "longest_command": slow[1],
        "longest_expire_cycle_ms": cycle,
        **probe.figures(),
        "seconds": round(took, 2),
        "server_waited_ms": round((server.waited_us() - waited) / 1000, 1),
    }


def _one_moment(client: Any, count: int) -> float:
    """Make every key expire at the same time; Unix seconds."""
    ahead = 0.5 + count / 20_000
    while True:
        moment = time.time() + ahead
        cursor = -1
        while cursor:
            cursor, keys = client.scan(max(cursor, 0), count=1000)
            pipe = client.pipeline(transaction=False)
            for key in keys:
                pipe.pexpireat(key, int(moment * 1000))
            pipe.execute()
        if time.time() < moment - 0.2:
            return moment
        ahead *= 3  # a slow machine: some would expire before the others had their new TTL


def _gone(client: Any) -> None:
    deadline = time.monotonic() + 600
    while client.dbsize():
        if time.monotonic() > deadline:
            raise TimeoutError("the sessions are still there ten minutes after their time")
        time.sleep(0.02)


def _longest(client: Any) -> tuple[tuple[float, str], int]:
    """The longest command with its first word, and the longest expire cycle, ms; by the server's clock."""
    log = [
        (entry["duration"] / 1000, entry["command"].partition(b" ")[0].decode()) for entry in client.slowlog_get(20_000)
    ]
    cycle = [int(most) for name, _, _, most, *_ in client.execute_command("LATENCY LATEST") if b"expire" in name]
    return max(log, default=(0.0, "")), max(cycle, default=0)
