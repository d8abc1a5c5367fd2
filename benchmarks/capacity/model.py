"""``python -m benchmarks capacity``: what 1, 10 and 100 million sessions need, calculated from the results of `growth`.

Writes the part of ``results/README.md`` between two marks. A test compares the page with the results, so that every
figure on the page comes from a run.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, Final

from benchmarks.capacity.prices import HOURS, SERVICES, Service
from benchmarks.report import RESULTS, TABLES, markdown, replace_part
from benchmarks.soak.run import STORED
from presence_core import Settings

SOAK: Final = RESULTS / STORED

SIZES: Final = (1_000_000, 10_000_000, 100_000_000)

SEEN_EVERY: Final = 60
"""Seconds between two requests of a session."""

LASTS: Final = 7_200
"""Average length of a session in seconds: as many sessions begin as end."""

MAX_ENDED: Final = Settings().max_ended

PEOPLE: Final = 3
"""Stored offline people for each session online."""

DASHBOARDS: Final = 50
TICK: Final = 5

NODE_GB: Final = 16
"""Memory of the sessions on one node. A fork that writes a snapshot needs the same again."""

FULL: Final = 0.8
"""Planned use of the memory that a managed node has for data."""

BUSY: Final = 0.5
"""Planned load of a node's main thread, as a part of one core. The rest is for failovers and peak hours."""

LEAST: Final = 3
"""Minimum number of masters in a cluster."""

SHARDS: Final = 64
"""Shards of the measured clusters; the limit is MAX_SHARDS."""

MAX_SHARDS: Final = 1024

WAYS: Final = {
    "heartbeats by HeartbeatBuffer": "heartbeat",
    "validate on every request": "validate",
}

UNITS: Final = ("wall_us", "cpu_us", "in_bytes", "out_bytes", "replica_bytes")

Run = dict[str, Any]


def _runs(server: str) -> list[Run]:
    path = RESULTS / f"growth-{server}.json"
    return json.loads(path.read_text("utf-8")) if path.exists() else []


def _size(count: int) -> str:
    return f"{count // 1_000_000} million" if count >= 1_000_000 else f"{count:,}"


def _measured(server: str, runs: list[Run]) -> Iterator[str]:
    """The measured figures."""
    single, clusters = ([run for run in runs if run["cluster"] is kind] for kind in (False, True))
    yield f"### {single[-1]['server']}: measured"
    yield ""
    yield f"From `benchmarks/results/growth-{server}.json`. One server; medians of a whole call, ms:"
    yield ""
    calls = {
        "page": "first page",
        "counts": "counts",
        "validate": "validate",
        "one_users": "one user's sessions",
        "search": "search",
    }
    head = ("sessions", "load", "bytes a session", "bytes an ended session", "bytes an offline person",
            "logins/s by login_many")  # fmt: skip
    rows = [
        (_size(run["sessions"]), f"{run['load']:g}", f"{run['bytes_a_session']:,}",
         *(f"{run['left'][kind]:,}" if "left" in run else "" for kind in ("session", "person")),
         f"{run['logins_per_second']:,}", *(f"{run[name]['ms']:.2f}" for name in calls))
        for run in single
    ]  # fmt: skip
    yield from markdown((*head, *calls.values()), rows)
    if clusters:
        yield "Clusters of 64 shards; commands that each node executes for one call, including those inside scripts:"
        yield ""
        yield from markdown(
            ("nodes", "sessions", "load", "bytes a session", *(f"{title}, ms" for title in calls.values()),
             "commands per node: page", "counts", "validate"),
            [(str(run["nodes"]), _size(run["sessions"]), f"{run['load']:g}",
              f"{run['bytes_a_session']:,}", *(f"{run[name]['ms']:.2f}" for name in calls),
              *(" ".join(f"{number:g}" for number in run[name]["commands_per_node"])
                for name in ("page", "counts", "validate"))) for run in clusters],
        )  # fmt: skip
    work = _work(runs)
    sizes = " or ".join(dict.fromkeys(_size(run["sessions"]) for run in (_basis(runs), _largest(runs))))
    nodes = ", or on the three nodes above" if clusters else ""
    yield f"Cost of one action, on one server with {sizes} sessions{nodes}; the highest of these:"
    yield ""
    acts = {"heartbeat": "heartbeat, 1,000 per call", "validate": "validate", "login": "login",
            "sweep": "expire by sweep", "kick": "kick", "dashboard_tick": "one refresh of a dashboard"}  # fmt: skip
    spent = ("", "wall, one client, µs", "main threads, µs", "bytes in", "bytes out", "bytes to a replica")
    yield from markdown(
        spent, [(title, *(f"{work[name][unit]:,.1f}" for unit in UNITS)) for name, title in acts.items()]
    )


def _basis(runs: list[Run]) -> Run:
    """The largest run with a replica."""
    return max((run for run in runs if "left" in run), key=lambda run: int(run["sessions"]))


def _work(runs: list[Run]) -> dict[str, dict[str, float]]:
    """Cost of each action: the highest of one server with a replica, the largest server, and three nodes.

    On a cluster a call for many sessions is one script for each shard.
    """
    sides = [
        _basis(runs)["work"],
        _largest(runs)["work"],
        *(run["work"] for run in runs if run["cluster"] and run["nodes"] == 3),
    ]
    return {name: {unit: max(side[name].get(unit, 0.0) for side in sides) for unit in UNITS} for name in sides[0]}


def _largest(runs: list[Run]) -> Run:
    """The largest run on one server."""
    return max((run for run in runs if not run["cluster"]), key=lambda run: int(run["sessions"]))


@dataclass(frozen=True, slots=True)
class Check:
    """The model for the load of the soak, and what the soak measured: share of a core, MB when loaded."""

    cores: float
    measured_cores: float
    mb: float
    measured_mb: float

    @property
    def factor(self) -> float:
        """A site needs more of the processor than its calls one after the other: each other's data leaves the caches,
        and the worker tidies up."""
        return max(1.0, self.measured_cores / self.cores)


def check() -> Check:
    """Compare the model with `python -m benchmarks soak` on one server."""
    soak, runs = json.loads(SOAK.read_text("utf-8")), _runs("valkey")
    work = _work([run for run in runs if not run["cluster"]])
    rates = {name: float(act["asked_per_second"]) for name, act in soak["acts"].items()}
    ends = rates["login"] - rates["kick"]
    spent = {
        "heartbeat": rates["heartbeats"], "login": rates["login"], "kick": rates["kick"],
        "validate": rates["validate after kick"], "sweep": ends, "dashboard_tick": rates["counts"],
    }  # fmt: skip
    loaded = soak["sessions"] + ends * soak["minutes"] * 60  # with those that expire during the run
    figures = soak["figures"]
    return Check(
        sum(rate * work[name]["cpu_us"] for name, rate in spent.items()) / 1e6,
        figures["server's processor, %"] / 100,
        loaded * _largest(runs)["bytes_a_session"] / 1e6,
        figures["memory when loaded, MB"],
    )


def needs(runs: list[Run], count: int, seen_by: str, node_gb: float = NODE_GB) -> dict[str, float]:
    """Rates, cores, memory, bandwidth and nodes for this number of sessions online."""
    work, factor = _work(runs), check().factor
    left = _basis(runs)["left"]
    each = _largest(runs)["bytes_a_session"]
    memory, offline = count * each / 1e9, (MAX_ENDED * left["session"] + PEOPLE * count * left["person"]) / 1e9
    rates = {seen_by: count / SEEN_EVERY, "login": count / LASTS, "sweep": count / LASTS}
    shards, wanted = 0, SHARDS
    while wanted > shards:  # more masters need more shards, which make a dashboard's refresh cost more
        shards = wanted
        rates["dashboard_tick"] = DASHBOARDS / TICK * shards / SHARDS
        total = {unit: sum(rate * work[name][unit] for name, rate in rates.items()) for unit in UNITS}
        cores = total["cpu_us"] / 1e6 * factor
        masters = max(LEAST, ceil((memory + offline) / node_gb), ceil(cores / BUSY))
        wanted = min(MAX_SHARDS, 1 << (4 * masters - 1).bit_length())
    return {
        "seen": rates[seen_by], "logins": rates["login"], "cores": cores, "memory_gb": memory, "offline_gb": offline,
        "masters": masters, "shards": shards, "in_mb": total["in_bytes"] / 1e6, "out_mb": total["out_bytes"] / 1e6,
        "replica_mb": total["replica_bytes"] / 1e6,
    }  # fmt: skip


def _needed(runs: list[Run]) -> Iterator[str]:
    yield f"### {_basis(runs)['server']}: needed"
    yield ""
    rows = []
    for way, act in WAYS.items():
        for count in SIZES:
            need = needs(runs, count, act)
            rows.append((
                _size(count), way, f"{need['seen']:,.0f}", f"{need['logins']:,.0f}", f"{need['cores']:,.1f}",
                f"{need['memory_gb']:,.0f}", f"{need['offline_gb']:,.0f}", f"**{need['masters']:.0f}**",
                f"{(need['memory_gb'] + need['offline_gb']) / need['masters']:,.1f}", f"{need['shards']:.0f}",
                f"{need['in_mb']:,.0f} / {need['out_mb']:,.0f}", f"{need['replica_mb']:,.0f}",
            ))  # fmt: skip
    head = ("online", "seen by", "seen a second", "logins and ends a second, each", "cores busy", "GB online",
            "GB ended and offline", "masters", "GB a master", "shards", "MB/s in / out",
            "MB/s to replicas, all masters")  # fmt: skip
    yield from markdown(head, rows)


def _checked() -> Iterator[str]:
    found = check()
    yield "### The model and the soak"
    yield ""
    yield f"One server with the load of `benchmarks/results/{SOAK.name}`:"
    yield ""
    yield from markdown(
        ("", "model", "measured", "measured / model"),
        [("share of a core", f"{found.cores:.2f}", f"{found.measured_cores:.2f}", f"**{found.factor:.2f}**"),
         ("MB when loaded", f"{found.mb:,.0f}", f"{found.measured_mb:,.0f}", f"{found.measured_mb / found.mb:.2f}")],
    )  # fmt: skip


def _cheapest(runs: list[Run], size: int, act: str, service: Service) -> tuple[str, str, str]:
    """The cheapest node type of a service, how many, and dollars a month, with one replica for each master."""
    masters = {node: needs(runs, size, act, node.gb * FULL)["masters"] for node in service.nodes}
    cheapest = min(masters, key=lambda node: masters[node] * node.dollars)
    count = 2 * masters[cheapest]
    beyond = f"; a cluster has at most {service.most_nodes}" if count > service.most_nodes else ""
    return cheapest.name, f"{count:,.0f}{beyond}", f"**${count * cheapest.dollars * HOURS:,.0f}**"


def _money(runs: list[Run]) -> Iterator[str]:
    """The cheapest node type of each service."""
    yield "### Money a month"
    yield ""
    for service in SERVICES:
        nodes = ", ".join(f"{node.name} ({node.gb:g} GB for data) ${node.dollars:g}" for node in service.nodes)
        yield f"**{service.title}**, an hour: {nodes}. Source: {service.source}."
        yield ""
        rows = [(_size(size), way, *_cheapest(runs, size, act, service)) for way, act in WAYS.items() for size in SIZES]
        yield from markdown(("online", "seen by", "node type", "nodes, half of them replicas", "a month"), rows)


def measured() -> str:
    """All that is needed, the money, the runs behind it, and the comparison with a whole site."""
    found = [line for server in ("valkey", "redis") if (runs := _runs(server)) for line in _measured(server, runs)]
    valkey, redis = _runs("valkey"), _runs("redis")
    return "\n".join(
        [*_checked(), *_needed(valkey), *(_needed(redis) if redis else ()), *_money(valkey), *found]
    )  # fmt: skip


def main(argv: Sequence[str]) -> int:
    """Write the generated part of the page."""
    argparse.ArgumentParser(prog="python -m benchmarks capacity", description=__doc__).parse_args(argv)
    replace_part(TABLES, "capacity", measured())
    print(f"Wrote {RESULTS.name}/{TABLES.name} from {RESULTS.name}/growth-*.json.")
    return 0
