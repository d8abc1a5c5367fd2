"""``python -m benchmarks capacity``: what 10 and 100 million sessions need, worked out from what `growth` measured.

Writes the part of ``docs/capacity.md`` between its two marks anew. A test holds page and results together, so that no
figure stands there that no run has written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from math import ceil
from pathlib import Path
from typing import Any, Final

from benchmarks.report import RESULTS
from presence_core import Settings

PAGE: Final = Path(__file__).parent.parent / "docs" / "capacity.md"
BEGIN: Final = "<!-- by python -m benchmarks capacity: begin -->\n"
END: Final = "<!-- end -->"

SIZES: Final = (10_000_000, 100_000_000)

SEEN_EVERY: Final = 60
"""Seconds between two requests of a session."""

LASTS: Final = 7_200
"""Seconds of a session, on average: as many begin as end."""

MAX_ENDED: Final = Settings().max_ended

PEOPLE: Final = 3
"""Offline people that are remembered, for each session online."""

DASHBOARDS: Final = 50
TICK: Final = 5

NODE_GB: Final = 16
"""Of sessions on one node: as much again for a fork that writes a snapshot, and for growth."""

BUSY: Final = 0.5
"""Of one core: what a node's main thread is planned to be busy, so that it bears a failover and a bad hour."""

LEAST: Final = 3
"""Masters of a cluster."""

SHARDS: Final = 64
"""Of the clusters that were measured; the most that may be is MOST_SHARDS."""

MOST_SHARDS: Final = 1024

WAYS: Final = {
    "heartbeats gathered by HeartbeatBuffer": "heartbeat",
    "every request checked by validate": "validate",
}

UNITS: Final = ("wall_us", "cpu_us", "in_bytes", "out_bytes", "replica_bytes")

Run = dict[str, Any]


def _runs(server: str) -> list[Run]:
    path = RESULTS / f"growth-{server}.json"
    return json.loads(path.read_text("utf-8")) if path.exists() else []


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(row) + " |"
    yield ""


def _size(count: int) -> str:
    return f"{count // 1_000_000} million" if count >= 1_000_000 else f"{count:,}"


def _measured(server: str, runs: list[Run]) -> Iterator[str]:
    """What the rest is worked out from."""
    single, clusters = ([one for one in runs if one["cluster"] is kind] for kind in (False, True))
    yield f"### {single[-1]['server']}: measured"
    yield ""
    yield f"From `benchmarks/results/growth-{server}.json`. One server; medians of a whole call, ms:"
    yield ""
    calls = {
        "page": "first page",
        "counts": "counts",
        "validate": "validate",
        "one_users": "one user's",
        "search": "search",
    }
    head = ("sessions", "load", "bytes a session", "of an ended one", "of an offline person", "logins/s by login_many")
    rows = [
        (_size(one["sessions"]), f"{one['load']:g}", f"{one['bytes_a_session']:,}",
         *(f"{one['left'][kind]:,}" if "left" in one else "" for kind in ("session", "person")),
         f"{one['logins_per_second']:,}", *(f"{one[name]['ms']:.2f}" for name in calls))
        for one in single
    ]  # fmt: skip
    yield from _table((*head, *calls.values()), rows)
    if clusters:
        yield "Clusters of 64 shards; commands that each node carries out for one call, those inside scripts included:"
        yield ""
        yield from _table(
            ("nodes", "sessions", "load", "bytes a session", *(f"{title}, ms" for title in calls.values()),
             "commands per node: page", "counts", "validate"),
            [(str(one["nodes"]), _size(one["sessions"]), f"{one['load']:g}",
              f"{one['bytes_a_session']:,}", *(f"{one[name]['ms']:.2f}" for name in calls),
              *(" ".join(f"{number:g}" for number in one[name]["commands_per_node"])
                for name in ("page", "counts", "validate"))) for one in clusters],
        )  # fmt: skip
    basis, work = _basis(runs), _work(runs)
    of = f"one server with {_size(basis['sessions'])} sessions and a replica"
    yield f"What one act takes: of {of}{', or of the three nodes above, whichever is more' if clusters else ''}."
    yield ""
    acts = {"heartbeat": "heartbeat, of 1,000 in a call", "validate": "validate", "login": "login",
            "sweep": "a session's end by sweep", "kick": "kick", "dashboard_tick": "a dashboard's tick"}  # fmt: skip
    spent = ("", "wall, one client, µs", "main threads, µs", "bytes in", "bytes out", "bytes to a replica")
    yield from _table(spent, [(title, *(f"{work[name][unit]:,.1f}" for unit in UNITS)) for name, title in acts.items()])


def _basis(runs: list[Run]) -> Run:
    """The largest run that had a replica: what acts take."""
    return max((one for one in runs if "left" in one), key=lambda one: int(one["sessions"]))


def _work(runs: list[Run]) -> dict[str, dict[str, float]]:
    """What an act takes: of one server with a replica and of three nodes without, the dearer. On a cluster a call of
    many sessions is one script for each shard."""
    sides = [_basis(runs)["work"], *(one["work"] for one in runs if one["cluster"] and one["nodes"] == 3)]
    return {name: {unit: max(side[name].get(unit, 0.0) for side in sides) for unit in UNITS} for name in sides[0]}


def needs(runs: list[Run], count: int, seen_by: str) -> dict[str, float]:
    """So many sessions online: rates, cores, memory, bandwidth, nodes."""
    work = _work(runs)
    left = _basis(runs)["left"]
    each = max((one for one in runs if not one["cluster"]), key=lambda one: int(one["sessions"]))["bytes_a_session"]
    memory, offline = count * each / 1e9, (MAX_ENDED * left["session"] + PEOPLE * count * left["person"]) / 1e9
    rates = {seen_by: count / SEEN_EVERY, "login": count / LASTS, "sweep": count / LASTS}
    shards, wanted = 0, SHARDS
    while wanted > shards:  # more masters want more shards, and these make a dashboard's tick dearer
        shards = wanted
        rates["dashboard_tick"] = DASHBOARDS / TICK * shards / SHARDS
        total = {unit: sum(rate * work[name][unit] for name, rate in rates.items()) for unit in UNITS}
        cores = total["cpu_us"] / 1e6
        masters = max(LEAST, ceil((memory + offline) / NODE_GB), ceil(cores / BUSY))
        wanted = min(MOST_SHARDS, 1 << (4 * masters - 1).bit_length())
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
    head = ("online", "how they are seen", "a second", "logins and ends a second, each", "cores busy", "GB online",
            "GB of who was", "masters", "GB a master", "shards", "MB/s in / out",
            "MB/s to replicas, all masters")  # fmt: skip
    yield from _table(head, rows)


def derived() -> str:
    """The part of the page that is worked out."""
    lines: list[str] = []
    for server in ("valkey", "redis"):
        if runs := _runs(server):
            lines += [*_needed(runs), *_measured(server, runs)]
    return "\n".join(lines)


def main() -> int:
    """Write the page anew."""
    text = PAGE.read_text("utf-8")
    head, _, rest = text.partition(BEGIN)
    PAGE.write_text(head + BEGIN + "\n" + derived() + END + rest.partition(END)[2], "utf-8")
    print(f"docs/{PAGE.name} says what {RESULTS.name}/growth-*.json do.")
    return 0
