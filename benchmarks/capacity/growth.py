"""``python -m benchmarks growth``: the cost of calls by number of sessions and by number of cluster nodes.

First one server with more and more sessions, then clusters of 1, 3 and 6 masters with a constant number of sessions,
all on this machine. Nodes that share two cores are together no faster than one node. So the cluster figures are work:
the commands that each node ran for a call, and its bytes. Times are medians of the whole call at the client. ``work``
is what one heartbeat, login and so on takes of the server's processor and network. With up to 100,000 sessions on one
server it runs with a replica, and also counts the bytes sent to it.

Each run replaces the stored run of the same size or number of nodes, so the whole can be run in pieces. ``python -m
benchmarks capacity`` then calculates what many millions need.
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
from datetime import timedelta
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

from benchmarks.data import imported_logins
from benchmarks.data import logins as new_logins
from benchmarks.methods.ending import BY, REASON
from benchmarks.methods.memory import left_behind
from benchmarks.report import RESULTS, write
from benchmarks.stage import SETTINGS, binaries
from presence_core import Login, Presence, SessionFilter
from presence_dashboard.data.session_query import FACETS
from tests.support.servers import Cluster, Server, wait_for

TARGETS: Final = {"page_ms": 5.0, "counts_ms": 2.0}
"""Limits for 64 shards on three nodes."""

CHUNK: Final = 5_000
REPLICATED: Final = 100_000
"""Up to this many sessions, work is measured with a replica."""

NEW: Final = 50_000_000
"""Users that log in during the measurement have numbers from here on."""
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
    """Log that many users in; returns some of the logins as a sample."""
    rows, kept = imported_logins(count, time.time(), 3 * 3600.0), []
    for chunk in iter(lambda: list(itertools.islice(rows, CHUNK)), []):
        done = presence.login_many(chunk, imported=True)
        kept += [login for login in done[:: max(1, count // 2_000)] if isinstance(login, Login)]
    return kept


def _bytes(nodes: list[Server]) -> list[int]:
    return [int(node.client().info("memory")["used_memory"]) for node in nodes]


def _commands(nodes: list[Server]) -> list[int]:
    """Number of commands run so far, including those inside scripts, without those of this measurement."""
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
    """µs of the main threads; bytes from clients, to clients (without replicas), and to one replica."""
    spent = Counter[str]()
    for node in nodes:
        info = node.client().info("everything")
        spent["cpu_us"] += (info["used_cpu_user_main_thread"] + info["used_cpu_sys_main_thread"]) * 1e6
        spent["in_bytes"] += info["total_net_input_bytes"]
        spent["out_bytes"] += info["total_net_output_bytes"] - info["total_net_repl_output_bytes"]
        spent["replica_bytes"] += info["master_repl_offset"]
    return spent


def _work(act: Callable[[], object], times: int, units: int, nodes: list[Server], replica: bool) -> dict[str, float]:
    """Cost per unit; one call has ``units`` of them."""
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
    """A synchronized replica of the one server, to measure what a replica receives."""
    if not wanted:
        yield
        return
    master = f"{nodes[0].host} {nodes[0].port}"
    with Server.start(binary, directory, *QUIET, "--replicaof", *master.split(), port=True) as server:
        wait_for("a replica in sync", lambda: server.client().info("replication")["master_link_status"] == "up", 120)
        yield


def _works(presence: Presence, logins: list[Login], nodes: list[Server], replica: bool) -> dict[str, Any]:
    refs, tokens = [login.session.ref for login in logins[:1000]], itertools.cycle([login.token for login in logins])
    rows, ends = new_logins(2_000, first_user=NEW), iter(logins[1000:])
    uids = itertools.cycle([login.session.uid for login in logins])

    def tick() -> None:
        as_of = presence.counts().as_of
        presence.list_sessions(limit=50)
        uid = next(uids)
        for text in (uid, uid[:5], "maria"):  # as a dashboard of the soak
            presence.list_sessions(SessionFilter(text=text))
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
    presence.internal.context.now = str(int(time.time() * 1000) + 1000 * (SETTINGS.idle_timeout + 3600))
    found["sweep"] = _work(lambda: presence.sweep(limit=1_000), 4, 1_000, nodes, replica)
    return found


def _measure(server: str, directory: Path, url: str, nodes: list[Server], count: int) -> dict[str, Any]:
    with Presence.from_url(url, SETTINGS) as presence:
        presence.counts()
        info, empty = nodes[0].client().info("server"), _bytes(nodes)
        begun = time.perf_counter()
        logins = _load(presence, count)
        rate = count / (time.perf_counter() - begun)
        tokens, uids = (
            itertools.cycle(of) for of in zip(*((login.token, login.session.uid) for login in logins), strict=True)
        )
        found = {
            "server": f"Valkey {info['valkey_version']}"
            if "valkey_version" in info
            else f"Redis {info['redis_version']}",
            "sessions": count,
            "nodes": len(nodes),
            "shards": len(presence.internal.context.keys.shards),
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
        with _replica(binaries()[server], directory / "replica", nodes, replica):
            found["work"] = _works(presence, logins, nodes, replica)
        if replica:
            found["left"] = left_behind(server)
        return found


def _line(run: dict[str, Any]) -> str:
    times = "  ".join(
        f"{name} {run[name]['ms']:7.2f} ms" for name in ("page", "counts", "validate", "one_users", "search")
    )
    return f"{run['sessions']:>9,} sessions, {run['nodes']} node(s): {times}  {run['bytes_a_session']} B a session"


def _merged(path: Path, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The stored runs, with the new ones in place of runs of the same kind: one server of a size, a cluster of a number
    of nodes."""

    def kind(run: dict[str, Any]) -> tuple[bool, int, int]:
        return run["cluster"], run["nodes"], 0 if run["cluster"] else run["sessions"]

    known = json.loads(path.read_text("utf-8")) if path.exists() else []
    return sorted({kind(run): run for run in [*known, *found]}.values(), key=kind)


def main(argv: Sequence[str]) -> int:
    """Measure, print, and write ``results/growth-….json``. The exit code is 1 if three nodes missed a target."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks growth", description=__doc__)
    parser.add_argument(
        "--sizes", default="10000,100000,1000000", help="numbers of sessions on one server; '' for none"
    )
    parser.add_argument("--nodes", default="1,3,6", help="masters of the clusters; '' for none")
    parser.add_argument("--sessions", type=int, default=100_000, help="number of sessions on each cluster")
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
                found.append(_measure(args.server, place, url, nodes, size) | {"cluster": start is _cluster})
            print(_line(found[-1]), flush=True)
            write(path, _merged(path, found))
    three = [run for run in found if run["cluster"] and run["nodes"] == 3]
    missed = [name for name, most in TARGETS.items() for run in three if run[name.removesuffix("_ms")]["ms"] > most]
    print(f"Written to {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path.name}."
          + "".join(f" MISSED: {name} ≤ {TARGETS[name]:g}." for name in missed))  # fmt: skip
    return 1 if missed else 0
