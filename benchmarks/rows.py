"""``python -m benchmarks compare --before FILE… --after FILE…``: the first tables, from paired runs.

Each file is what ``--json`` wrote. The first file of one side is paired with the first of the other, and so on. A call
replaces only the rows that its files have, so the table can be made in pieces. A test compares the page with the
results.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.measure import Json
from benchmarks.report import DISTURBED, RESULTS, TABLES, markdown, replace_part, write

PAGE: Final = TABLES
STORED: Final = RESULTS / "rows.json"
SIDES: Final = ("before", "after")


@dataclass(frozen=True, slots=True)
class Row:
    """One target of one benchmark."""

    title: str
    benchmark: str
    what: str  #: the target's text
    target: str
    before: str  #: as known when the target was set; shown until there are runs
    size: str = "100k"

    @property
    def command(self) -> str:
        return f"`--only {self.benchmark} --sizes {self.size}`"


ROWS: Final = (
    Row("purge of 1M after `revoke_before`, s", "purge", "s for a million", "≤ 50", "115", "1m"),
    Row("heartbeats meanwhile, p99, ms", "purge", "p99 of heartbeats, ms", "≤ 10", "7.9", "1m"),
    Row("sweep, sessions/s", "sweep", "sessions/s", "≥ 40,000", "17,000–18,000"),
    Row("`login_many`, rows/s", "login_many", "rows/s", "≥ 16,000", "6,600–8,600"),
    Row("heartbeats in batches of 1,000, refs/s", "heartbeats_1000", "refs/s", "≥ 120,000", "62,000"),
    Row("kick all of a user (three sessions), server µs", "kick_three", "server µs", "≤ 107", "280"),
    Row("login, server µs", "login", "server µs", "≤ 44", "49"),
    Row("exact count, server µs", "counts", "server µs", "≤ 13", "42"),
    Row("first page of 50, every field read, × bare", "page_read", "× bare", "≤ 1.3", "2.0", "1m"),
    Row("filter by device and name prefix, page of 50, ms", "search_two", "ms", "≤ 30", "145", "1m"),
    Row("bytes a session", "memory", "B per session", "≤ 800; Redis 7 ≤ 1,000", "929; Redis 7 1,180–1,361", "1m"),
    Row("bytes of an ended session", "ended", "B per ended session", "≤ 300", "441–550"),
    Row("reshard of 100k from 1 to 4 shards, s", "reshard", "s", "≤ 8", "21"),
)

NAMES: Final = tuple(dict.fromkeys(row.benchmark for row in ROWS))

Runs = dict[str, dict[str, Json]]
"""Server → title of a row → limit, at_most, and of each side the figures, a run each: actual, ratio to bare, waited."""


def read(side: str, files: Sequence[Path], into: Runs) -> None:
    """Add the figures of these files. If a file has several sizes, the largest one counts."""
    for file in files:
        found: dict[tuple[str, str], Json] = {}
        for document in sorted(json.loads(file.read_text("utf-8")), key=lambda document: int(document["sessions"])):
            targets = {
                (result["benchmark"], target["what"]): target | {name: result.get(name) for name in ("ratio", "waited")}
                for result in document["results"]
                for target in result["targets"]
            }
            for row in ROWS:
                if target := targets.get((row.benchmark, row.what)):
                    found[document["server"].split()[0], row.title] = target
        for (server, title), target in found.items():
            stored = into.setdefault(server, {}).setdefault(
                title, {"limit": target["limit"], "at_most": target["at_most"]} | {side: [] for side in SIDES}
            )
            stored[side].append({name: target[name] for name in ("actual", "ratio", "waited")})


def derived(runs: Runs) -> str:
    """The generated part of the page."""
    return "\n".join(line for server in dict.fromkeys(["Valkey", *runs]) for line in _table(server, runs))


def _table(server: str, runs: Runs) -> Iterator[str]:
    yield f"### {server}"
    yield ""
    head = ("work", "target", "before", "after: median, lowest–highest", "after / before", "× bare: before, after",
            "result", "command")  # fmt: skip
    lines = []
    for row in ROWS:
        stored = runs.get(server, {}).get(row.title, {})
        if server != "Valkey" and not stored:
            continue  # of other servers, only what was measured
        before, after = (_values(stored, side, "actual") for side in SIDES)
        ratios = [f"{median(found):.2f}" for side in SIDES if (found := _values(stored, side, "ratio"))]
        doubt = "?" if median(_values(stored, "after", "waited") or [0]) > DISTURBED else ""
        pairs = [new / old for new, old in zip(after, before, strict=False)]
        met = after and (median(after) <= stored["limit"] if stored["at_most"] else median(after) >= stored["limit"])
        lines.append((
            row.title, row.target, _short(median(before)) if before else row.before if server == "Valkey" else "",
            f"**{_short(median(after))}**{_range(after)}" if after else "not measured",
            f"{median(pairs):.2f}" if pairs else "", ", ".join(ratios) if pairs else "",
            f"met{doubt}" if met else f"**missed{doubt}**" if after else "", row.command,
        ))  # fmt: skip
    yield from markdown(head, lines)


def _values(stored: Json, side: str, name: str) -> list[float]:
    return [float(run[name]) for run in stored.get(side, ()) if run[name] is not None]


def _range(values: list[float]) -> str:
    return f", {_short(min(values))}–{_short(max(values))}" if len(values) > 1 else ""


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def stored_runs() -> Runs:
    return json.loads(STORED.read_text("utf-8")) if STORED.exists() else {}


def main(argv: Sequence[str]) -> int:
    """Store the figures and write the generated part of the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks compare", description=__doc__)
    for side in SIDES:
        parser.add_argument(f"--{side}", type=Path, nargs="+", default=[], metavar="FILE")
    arguments = parser.parse_args(argv)
    if arguments.before and len(arguments.before) != len(arguments.after):
        parser.error("give as many files for --before as for --after: they are paired; or none for --before")
    found: Runs = {}
    for side in SIDES:
        read(side, getattr(arguments, side), found)
    runs = stored_runs()
    for server, rows in found.items():
        runs.setdefault(server, {}).update(rows)
    if found:
        write(STORED, runs)
    replace_part(PAGE, "compare", derived(runs))
    print(derived(runs))
    return 0
