"""The tables, in Markdown, and the JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from benchmarks.measure import Json
from benchmarks.peers.install import Kind
from benchmarks.peers.rounds import Cell, Line
from benchmarks.report import markdown

_THROUGH_ALL: Final = ("SCAN", "KEYS", "everything", "iter_keys", "store.all")

Shown = tuple[float, str]
"""The figure to compare, and its text; infinity if there is none."""

_NONE: Final = float("inf")


def tables(about: Json, kinds: Sequence[Kind], lines: Sequence[Line], sizes: Json, expiry: Mapping[str, Json]) -> str:
    """The results of one run as Markdown, for the terminal and for benchmarks/results/README.md."""
    keys = [kind.key for kind in kinds]

    def of_calls(value: Callable[[Cell, Cell], tuple[float, str]]) -> list[tuple[str, list[Shown]]]:
        return [(line.title, [_of(line, key, value) for key in keys]) for line in lines]

    def of_figures(title: str, say: Callable[[float], str], values: Mapping[str, float]) -> tuple[str, list[Shown]]:
        return title, [(values[key], say(values[key])) if key in values else (_NONE, "— (died)") for key in keys]

    blocks, pings = "longest server block, ms", "PING of others meanwhile, ms"
    ends = [
        of_figures("bytes a session", lambda value: f"{value:,.0f}", sizes),
        of_figures(blocks, "{:.1f}".format, {key: result["worst_block_ms"] for key, result in expiry.items()}),
        of_figures(f"{pings}: median", "{:.1f}".format, {key: result["p50_ping_ms"] for key, result in expiry.items()}),
        of_figures(
            f"{pings}: slowest", "{:.1f}".format, {key: result["worst_ping_ms"] for key, result in expiry.items()}
        ),
        of_figures(
            "until all are removed, s", "{:.1f}".format, {key: result["seconds"] for key, result in expiry.items()}
        ),
    ]
    parts = [
        f"### {about['server']}, {about['sessions']:,} sessions",
        "Wall time of a call, median; × is the factor to presence-core:",
        _table(kinds, of_calls(lambda cell, ours: (cell.p50, _time(cell.p50) + _times(cell, ours)))),
        "Server time in commands, µs a call (`INFO commandstats`):",
        _table(kinds, of_calls(lambda cell, _: _plain(cell.server_us()))),
        "Server time of the main thread, with sockets, µs a call (`INFO cpu`):",
        _table(kinds, of_calls(lambda cell, _: _plain(cell.server_cpu_us()))),
        "Memory, and a mass expiry of all sessions:",
        _table(kinds, ends),
        "**Bold** is the best of its row. ° reads all sessions, by KEYS, SCAN or a list of everything.",
    ]
    return "\n\n".join(parts)


IN_README: Final = {
    "exact count of sessions": "count sessions",
    "page 1: the newest 50": "the newest 50",
    "one user's sessions": "sessions of one user",
    "authenticated read with touch": "validate a request",
    "login": "login",
}
_PEERS_IN_README: Final = ("ours", "redis-sessions", "connect-redis")


def summary(document: Json) -> str:
    """The table of the README: some rows of three stores."""
    names = [document["peers"][key].partition(",")[0] for key in _PEERS_IN_README[1:]]
    head = ["", "presence-core", *(name.partition(".")[0] for name in names)]
    rows = []
    for row in document["rows"]:
        if title := IN_README.get(row["operation"]):
            us = [float(row["peers"][key]["p50_us"]) for key in _PEERS_IN_README]
            rows.append([title, *(f"**{_ms(value)}**" if value == min(us) else _ms(value) for value in us)])
    return "\n".join(markdown(head, rows))


def _ms(us: float) -> str:
    return f"{us / 1e6:.1f} s" if us >= 1e6 else f"{us / 1000:.0f} ms" if us >= 10_000 else f"{us / 1000:.2g} ms"


def _of(line: Line, key: str, value: Callable[[Cell, Cell], tuple[float, str]]) -> Shown:
    cell = line.cells[key]
    if cell.how is None:
        return _NONE, f"— ({cell.why})"
    number, said = value(cell, line.cells["ours"])
    return number, said + "°" * any(word in cell.how for word in _THROUGH_ALL)


def _table(kinds: Sequence[Kind], rows: Sequence[tuple[str, list[Shown]]]) -> str:
    cells = [["", *(kind.title for kind in kinds)]]
    for title, shown in rows:
        best = min(value[0] for value in shown)
        cells.append([title, *(_cell(value, best) for value in shown)])
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    lines = ["| " + " | ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) + " |"
             for row in cells]  # fmt: skip
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def _cell(shown: Shown, best: float) -> str:
    return f"**{shown[1]}**" if shown[0] == best < _NONE else shown[1]


def _time(us: float) -> str:
    if us >= 1e6:
        return f"{us / 1e6:.2f} s"
    return f"{us / 1000:.1f} ms" if us >= 10_000 else f"{us / 1000:.2f} ms" if us >= 1000 else f"{us:.0f} µs"


def _times(cell: Cell, ours: Cell) -> str:
    if cell is ours:
        return ""
    ratio = cell.ratio(ours)
    return f" ×{ratio:,.0f}" if ratio >= 10 else f" ×{ratio:.2f}"


def _plain(us: float) -> tuple[float, str]:
    return us, f"{us:,.0f}" if us >= 10 else f"{us:.1f}"


def as_json(about: Json, lines: Sequence[Line], sizes: Json, expiry: Mapping[str, Json]) -> Json:
    rows = []
    for line in lines:
        cells = {key: _cell_json(cell, line.cells["ours"]) for key, cell in line.cells.items()}
        able = {key: cell.p50 for key, cell in line.cells.items() if cell.how is not None}
        fastest: str = min(able, key=lambda key: able[key])
        rows.append({"operation": line.title, "fastest": fastest, "peers": cells})
    return about | {
        "rows": rows,
        "bytes_per_session": {key: round(value, 1) for key, value in sizes.items()},
        "mass_expiry": dict(expiry),
    }


def _cell_json(cell: Cell, ours: Cell) -> Json:
    if cell.how is None:
        return {cell.why: True}
    calls = len(cell.us)
    figures = {
        "p50_us": cell.p50,
        "best_us": min(cell.us),
        "times_ours": cell.ratio(ours),
        "server_commands_us": cell.server_us(),
        "server_cpu_us": cell.server_cpu_us(),
        "server_waited_us": sum(cost.waited for cost in cell.costs) / calls,
        "client_cpu_us": cell.client_us / calls,
    }
    return {"how": cell.how, "calls": calls, "turns": len(cell.turns)} | {
        name: float(f"{value:.4g}") for name, value in figures.items()
    }
