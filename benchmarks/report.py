"""The table and the JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from benchmarks.measure import Json, Result

RESULTS = Path(__file__).parent / "results"
TABLES = RESULTS / "README.md"
"""The page with all tables of stored runs."""

_HEADER = ("benchmark", "p50", "p99", "bare p50", "ratio", "rate/s", "best/s", "bare/s", "server µs", "of it Lua",
           "server CPU",
    "client CPU", "longest call", "waited", "target")  # fmt: skip


DISTURBED: Final = 0.1
"""Share of time spent waiting for a core; above it, a verdict gets a question mark."""


def size_name(size: int) -> str:
    """10000 → 10k."""
    for unit, letter in ((1_000_000, "m"), (1000, "k")):
        if size >= unit and size % unit == 0:
            return f"{size // unit}{letter}"
    return str(size)


def table(about: Json, results: Sequence[Result]) -> str:
    """The results of one stage as text."""
    rows = [_HEADER, *(_row(result) for result in results if result.ours)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_HEADER))]
    title = f"{about['server']}, {about['sessions']:,} sessions"
    lines = [title, "=" * len(title)]
    for row in rows:
        cells = [
            row[0].ljust(widths[0]),
            *(cell.rjust(width) for cell, width in zip(row[1:-1], widths[1:-1], strict=True)),
        ]
        lines.append("  ".join([*cells, row[-1]]).rstrip())
    for result in results:
        if result.figures:
            lines += ["", *_figures(result)]
    return "\n".join(lines)


def _row(result: Result) -> tuple[str, ...]:
    ours, bare = result.ours, result.bare
    assert ours
    assert bare
    assert result.ratio is not None
    return (
        result.name,
        _time(ours.p50),
        _time(ours.p99),
        _time(bare.p50),
        f"{result.ratio:.2f}",
        f"{ours.rate:,.0f} {result.unit}".rstrip(),
        f"{ours.units * 1e6 / ours.best:,.0f}",
        f"{bare.rate:,.0f}",
        f"{ours.server_us:.1f}",
        f"{ours.lua_us:.1f}",
        f"{ours.server_cpu_us:.1f}",
        f"{ours.client_cpu_us:.1f}",
        f"{longest['longest_ms']:.1f} ({longest['logged_p50_ms']:.1f}) ms" if (longest := result.longest) else "",
        f"{result.waited:.0%}" if result.waited is not None else "",
        _targets(result),
    )


def _time(us: float) -> str:
    return f"{us / 1000:.2f} ms" if us >= 1000 else f"{us:.0f} µs"


def _targets(result: Result) -> str:
    # Both verdicts are still shown, but neither is reliable.
    doubt = "?" if result.waited is not None and result.waited > DISTURBED else ""
    return "; ".join(
        f"{'met' if target.met else 'MISSED'}{doubt}: {target.what} {'≤' if target.at_most else '≥'} {target.limit:,g}"
        for target in result.targets
    )


def _figures(result: Result) -> Iterable[str]:
    yield f"{result.name}  {_targets(result)}".rstrip()
    for name, value in result.figures.items():
        shown = f"{value:,.1f}" if isinstance(value, float) else f"{value:,}"
        yield f"  {name:<34}{shown:>12}"


def as_json(about: Json, results: Iterable[Result]) -> Json:
    return about | {"results": [result.as_json() for result in results]}


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """The lines of a table, and an empty one."""
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(row) + " |"
    yield ""


def _marks(command: str) -> tuple[str, str]:
    return f"<!-- by python -m benchmarks {command}: begin -->\n", f"<!-- {command}: end -->"


def part_of(page: Path, command: str) -> str:
    """The part of a page that a command writes."""
    begin, end = _marks(command)
    return page.read_text("utf-8").partition(begin)[2].partition(end)[0].strip()


def replace_part(page: Path, command: str, text: str) -> None:
    """Write the part of a page that belongs to a command."""
    begin, end = _marks(command)
    head, _, rest = page.read_text("utf-8").partition(begin)
    page.write_text(f"{head}{begin}\n{text.strip()}\n\n{end}{rest.partition(end)[2]}", "utf-8")


def write(file: Path, content: object) -> None:
    """Write the file whole or not at all: an interrupted run must not leave half a file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_name(f"{file.name}.tmp")
    unfinished.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", "utf-8")
    unfinished.replace(file)
