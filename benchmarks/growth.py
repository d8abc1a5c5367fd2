"""``python -m benchmarks growth``: what calls cost as sessions grow in number, and as the nodes of a cluster do.

First one server with more and more sessions, then clusters of 1, 3 and 6 masters with the same number of them, all on
this machine. Nodes that share two cores are no faster together than one; so what is told of them is work: commands that
each node carried out for a call, and its bytes. Times are medians of the whole call at the client. ``work`` is what one
heartbeat, login and so on takes of the server's processor and of its network; with up to 100,000 sessions on one server
a replica is at its side then, and what it is sent is told too. Each run takes the place of the one of that size, or
of as many nodes, in the file, so that it can be run in pieces; ``python -m benchmarks capacity`` then says anew what
many millions need.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

from benchmarks.data import imported_logins
from benchmarks.data import logins as new_logins
from benchmarks.ending import BY, REASON
from benchmarks.report import RESULTS, write
from benchmarks.stage import SETTINGS, binaries
from presence_core import Login, Presence, SessionFilter
from presence_dashboard.questions import FACETS
from tests.servers import Cluster, Server, wait_for

TARGETS: Final = {"page_ms": 5.0, "counts_ms": 2.0}
"""Of 64 shards on three nodes."""

CHUNK: Final = 5_000
REPLICATED: Final = 100_000
"""Up to so many sessions there is a replica while work is measured."""

ENDED: Final = 50_000

NEW: Final = 50_000_000
"""Users from here on log in while we measure."""
QUIET: Final = ("--save", "", "--appendonly", "no")


Start = Callable[[str, Path, int], AbstractContextManager[tuple[str, list[Server]]]]


@contextmanager
def _server(binary: str, directory: Path, _: int = 1) -> Iterator[tuple[str, list[Server]]]:
    with Server.start(binary, directory, *QUIET, port=True) as server:
        yield server.url, [server]


@contextmanager
def _cluster(binary: str, directory: Path, masters: int) -> Iterator[tuple[str, list[Server]]]:
    with Cluster.start(binary, directory, masters, 0, extra_args=QUIET) as cluster:
        yield cluster.url, cluster.nodes


def _load(presence: Presence, count: int) -> list[Login]:
    """Log that many in; some of them, to draw from."""
    rows, kept = imported_logins(count, time.time(), 3 * 3600.0), []
    for chunk in iter(lambda: list(itertools.islice(rows, CHUNK)), []):
        done = presence.login_many(chunk, imported=True)
        kept += [one for one in done[:: max(1, count // 2_000)] if isinstance(one, Login)]
    return kept


def _bytes(nodes: list[Server]) -> list[int]:
    return [int(node.client().info("memory")["used_memory"]) for node in nodes]


def _commands(nodes: list[Server]) -> list[int]:
    """Carried out so far, those inside scripts included, those of a measurement like this one not."""
    totals = []
    for node in nodes:
        stats = node.client().info("commandstats")
        totals.append(sum(of["calls"] for name, of in stats.items() if name not in ("cmdstat_info", "cmdstat_ping")))
    return totals


def _timed(calls: Callable[[], object], times: int, nodes: list[Server]) -> dict[str, Any]:
    calls()
    before, took = _commands(nodes), []
    for _ in range(times):
        begun = time.perf_counter()
        calls()
        took.append((time.perf_counter() - begun) * 1000)
    spent = [round((after - at) / times, 1) for after, at in zip(_commands(nodes), before, strict=True)]
    return {"ms": round(median(took), 3), "commands_per_node": spent}


def _spent(nodes: list[Server]) -> Counter[str]:
    """µs of main threads; bytes from clients, to clients without replicas, and to one replica."""
    spent = Counter[str]()
    for node in nodes:
        info = node.client().info("everything")
        spent["cpu_us"] += (info["used_cpu_user_main_thread"] + info["used_cpu_sys_main_thread"]) * 1e6
        spent["in_bytes"] += info["total_net_input_bytes"]
        spent["out_bytes"] += info["total_net_output_bytes"] - info["total_net_repl_output_bytes"]
        spent["replica_bytes"] += info["master_repl_offset"]
    return spent


def _work(act: Callable[[], object], times: int, units: int, nodes: list[Server], replica: bool) -> dict[str, float]:
    """Per unit, of which one call has so many."""
    act()
    before, begun = _spent(nodes), time.perf_counter()
    for _ in range(times):
        act()
    took = (time.perf_counter() - begun) * 1e6 / times / units
    spent = Counter({name: (after - before[name]) / times / units for name, after in _spent(nodes).items()})
    known = {name: round(value, 1) for name, value in spent.items() if replica or name != "replica_bytes"}
    return {"wall_us": round(took, 1)} | known


@contextmanager
def _replica(binary: str, directory: Path, nodes: list[Server], wanted: bool) -> Iterator[None]:
    """Of the one server, in sync; without it nobody knows what a replica is sent."""
    if not wanted:
        yield
        return
    master = f"{nodes[0].host} {nodes[0].port}"
    with Server.start(binary, directory, *QUIET, "--replicaof", *master.split(), port=True) as server:
        wait_for("a replica in sync", lambda: server.client().info("replication")["master_link_status"] == "up", 120)
        yield


def _works(presence: Presence, logins: list[Login], nodes: list[Server], replica: bool) -> dict[str, Any]:
    refs, tokens = [one.session.ref for one in logins[:1000]], itertools.cycle([one.token for one in logins])
    rows, ends = new_logins(2_000, first_user=NEW), iter(logins[1000:])
    uids = itertools.cycle([one.session.uid for one in logins])

    def tick() -> None:
        as_of = presence.counts().as_of
        presence.list_sessions(limit=50)
        presence.list_sessions(SessionFilter(text=next(uids)))
        presence.history(as_of - timedelta(hours=1), step=60)
        for field in FACETS:
            presence.facets(field)

    def kick() -> None:
        session = next(ends).session
        presence.kick(session.uid, session.session_id, by=BY, reason=REASON)

    acts: dict[str, tuple[Callable[[], object], int, int]] = {
        "heartbeat": (lambda: presence.heartbeats(refs), 20, len(refs)),
        "validate": (lambda: presence.validate(next(tokens)), 1_000, 1),
        "login": (lambda: presence.login(**next(rows)), 1_000, 1),
        "kick": (kick, 300, 1),
        "dashboard_tick": (tick, 50, 1),
    }
    found = {name: _work(act, times, units, nodes, replica) for name, (act, times, units) in acts.items()}
    presence._ctx.now = str(int(time.time() * 1000) + 1000 * (SETTINGS.idle_timeout + 3600))
    found["sweep"] = _work(lambda: presence.sweep(limit=1_000), 4, 1_000, nodes, replica)
    return found


def _measure(binary: str, directory: Path, url: str, nodes: list[Server], count: int) -> dict[str, Any]:
    with Presence.from_url(url, SETTINGS) as presence:
        presence.counts()
        info, empty = nodes[0].client().info("server"), _bytes(nodes)
        begun = time.perf_counter()
        logins = _load(presence, count)
        rate = count / (time.perf_counter() - begun)
        tokens, uids = (
            itertools.cycle(of) for of in zip(*((one.token, one.session.uid) for one in logins), strict=True)
        )
        found = {
            "server": f"Valkey {info['valkey_version']}"
            if "valkey_version" in info
            else f"Redis {info['redis_version']}",
            "sessions": count,
            "nodes": len(nodes),
            "shards": len(presence._ctx.keys.shards),
            "load": round(os.getloadavg()[0], 1),
            "bytes_a_session": round((sum(_bytes(nodes)) - sum(empty)) / count),
            "bytes_per_node": [after - at for after, at in zip(_bytes(nodes), empty, strict=True)],
            "logins_per_second": round(rate),
            "page": _timed(lambda: presence.list_sessions(limit=50), 200, nodes),
            "counts": _timed(presence.counts, 200, nodes),
            "validate": _timed(lambda: presence.validate(next(tokens)), 500, nodes),
            "one_users": _timed(lambda: presence.sessions(next(uids)), 200, nodes),
            "search": _timed(lambda: presence.list_sessions(SessionFilter(text=next(uids))), 100, nodes),
        }
        replica = len(nodes) == 1 and count <= REPLICATED
        with _replica(binary, directory / "replica", nodes, replica):
            found["work"] = _works(presence, logins, nodes, replica)
        if replica:
            found["left"] = _left(binary, directory / "left")
        return found


def _line(one: dict[str, Any]) -> str:
    times = "  ".join(
        f"{name} {one[name]['ms']:7.2f} ms" for name in ("page", "counts", "validate", "one_users", "search")
    )
    return f"{one['sessions']:>9,} sessions, {one['nodes']} node(s): {times}  {one['bytes_a_session']} B a session"


def _left(binary: str, directory: Path) -> dict[str, int]:
    """Bytes that a session leaves when it has run out, and a person whose last one has; without the capped events."""
    left, users = {}, 0
    for kind, keep in (("person", 0), ("session", SETTINGS.keep_expired)):
        settings = replace(SETTINGS, keep_expired=keep, max_events=100)
        with (
            Server.start(binary, directory / kind, *QUIET) as server,
            Presence.from_url(server.url, settings) as presence,
        ):
            presence.counts()
            empty = _bytes([server])[0]
            _load(presence, ENDED)
            users = presence.counts().users
            presence._ctx.now = str(int(time.time() * 1000) + 1000 * (SETTINGS.idle_timeout + 3600))
            presence.sweep()
            left[kind] = _bytes([server])[0] - empty
    return {"person": round(left["person"] / users), "session": round((left["session"] - left["person"]) / ENDED)}


def _merged(path: Path, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What is in the file, with these in the place of what they measured anew: a size of one server, a cluster of as
    many nodes."""

    def kind(one: dict[str, Any]) -> tuple[bool, int, int]:
        return one["cluster"], one["nodes"], 0 if one["cluster"] else one["sessions"]

    known = json.loads(path.read_text("utf-8")) if path.exists() else []
    return sorted({kind(one): one for one in [*known, *found]}.values(), key=kind)


def main(argv: Sequence[str]) -> int:
    """Measure, print, write ``results/growth-….json``; 1 where three nodes missed a target."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks growth", description=__doc__)
    parser.add_argument("--sizes", default="10000,100000,1000000", help="of one server; '' for none")
    parser.add_argument("--nodes", default="1,3,6", help="masters of the clusters; '' for none")
    parser.add_argument("--sessions", type=int, default=100_000, help="of each cluster")
    parser.add_argument("--server", choices=sorted(binaries()), default=next(iter(binaries())))
    args = parser.parse_args(argv)
    binary, found = binaries()[args.server], []
    path = RESULTS / f"growth-{args.server}.json"
    kinds: list[tuple[Start, int, int]] = [(_server, 1, int(size)) for size in args.sizes.split(",") if size]
    kinds += [(_cluster, int(masters), args.sessions) for masters in args.nodes.split(",") if masters]
    with TemporaryDirectory(prefix="growth-") as directory:
        for number, (start, masters, size) in enumerate(kinds):
            place = Path(directory) / str(number)
            with start(binary, place, masters) as (url, nodes):
                found.append(_measure(binary, place, url, nodes, size) | {"cluster": start is _cluster})
            print(_line(found[-1]), flush=True)
            write(path, _merged(path, found))
    three = [one for one in found if one["cluster"] and one["nodes"] == 3]
    missed = [name for name, most in TARGETS.items() for one in three if one[name.removesuffix("_ms")]["ms"] > most]
    print(f"Written to {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path.name}."
          + "".join(f" MISSED: {name} ≤ {TARGETS[name]:g}." for name in missed))  # fmt: skip
    return 1 if missed else 0
