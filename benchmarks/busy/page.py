"""The tables of a busy site in benchmarks/results/README.md, from stored runs. A test compares them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.measure import Json
from benchmarks.report import RESULTS, TABLES, markdown
from benchmarks.rows import SIDES

PAGE: Final = TABLES
STORED: Final = RESULTS / "busy.json"

Runs = dict[str, dict[str, dict[str, list[Json]]]]
"""Work → case → side → the figures of each round, in the order of the runs: paired by their place."""

Values = Callable[[Runs, str], list[float]]
"""A figure of each round of one side."""

COLUMNS: Final = {
    "rate": "a second",
    "client_us": "processor µs each",
    "site_us": "processor µs of the site, each",
    "p50_ms": "p50 ms",
    "p99_ms": "p99 ms",
    "calls": "calls",
    "errors": "errors",
}
"""Figures, and their heads in the tables."""

SUMS: Final = ("calls", "errors")

NO_SESSION: Final = ", no session"


@dataclass(frozen=True, slots=True)
class Work:
    """One load, which has a table of its own."""

    key: str
    title: str
    cases: str  #: head of the first column


WORKS: Final = (
    Work("in_flight", "`AsyncPresence.validate`, one event loop", "in flight"),
    Work("threads", "`Presence.validate` from threads", "threads"),
    Work("route", "A request to a FastAPI route, called in the process, 64 in flight", "site"),
    Work("fastapi", "A FastAPI site under `wrk`, one uvicorn process", "site"),
    Work("flask", "A Flask site under `wrk`, one gunicorn process with 100 threads", "site"),
    Work("serve", "`presence serve`, `POST /v1/validate` under `wrk`", "load"),
    Work(
        "first_changes", "First changes on connections that the server closed while they were idle", "client, closed by"
    ),
)


def _rounds(runs: Runs, side: str, work: str, case: str, figure: str) -> list[float | None]:
    """None for a round that has no such figure, because no call was answered."""
    return [figures.get(figure) for figures in runs.get(work, {}).get(case, {}).get(side, ())]


def _values(runs: Runs, side: str, work: str, case: str, figure: str) -> list[float]:
    return [value for value in _rounds(runs, side, work, case, figure) if value is not None]


def _sum_of(work: str, case: str | None = None) -> Values:
    """All errors; of every case if none is named."""

    def values(runs: Runs, side: str) -> list[float]:
        cases = [case] if case else list(runs.get(work, ()))
        found = [errors for name in cases for errors in _values(runs, side, work, name, "errors")]
        return [sum(found)] if found else []

    return values


def _over(work: str, case: str, figure: str, base: str) -> Values:
    """As a multiple of another case of the same round."""

    def values(runs: Runs, side: str) -> list[float]:
        return _ratios(_rounds(runs, side, work, case, figure), _rounds(runs, side, work, base, figure))

    return values


def _over_before(work: str, case: str, figure: str) -> Values:
    def values(runs: Runs, side: str) -> list[float]:
        before, after = (_rounds(runs, name, work, case, figure) for name in SIDES)
        return _ratios(after, before) if side == "after" else [1.0] * bool(before)

    return values


def _added(work: str, case: str, figure: str, base: str) -> Values:
    def values(runs: Runs, side: str) -> list[float]:
        pairs = zip(*(_values(runs, side, work, name, figure) for name in (case, base)), strict=False)
        return [value - least for value, least in pairs]

    return values


def _ratios(values: Sequence[float | None], bases: Sequence[float | None]) -> list[float]:
    return [value / base for value, base in zip(values, bases, strict=False) if value is not None and base]


@dataclass(frozen=True, slots=True)
class Target:
    """A line of the first table."""

    title: str
    limit: float
    at_most: bool
    values: Values

    def row(self, runs: Runs) -> tuple[str, ...]:
        before, after = (self.values(runs, side) for side in SIDES)
        cells = [_short(median(values)) if values else "" for values in (before, after)]
        met = after and (median(after) <= self.limit if self.at_most else median(after) >= self.limit)
        result = "met" if met else "**missed**" if after else "not measured"
        return (self.title, f"{'≤' if self.at_most else '≥'} {self.limit:g}", *cells, result)


TARGETS: Final = (
    Target("errors, 256 in flight", 0, True, _sum_of("in_flight", "256")),
    Target("errors, 5,000 in flight", 0, True, _sum_of("in_flight", "5,000")),
    Target("errors, 200 threads", 0, True, _sum_of("threads", "200")),
    Target("validations/s, 256 in flight, × before", 3, False, _over_before("in_flight", "256", "rate")),
    Target("processor of the client, 64 in flight, × before", 0.4, True, _over_before("in_flight", "64", "client_us")),
    Target("one call at a time, median time, × before", 1, True, _over_before("in_flight", "1", "p50_ms")),
    Target("`presence serve`, 4 connections, × before", 2, False, _over_before("serve", "4 connections", "rate")),
    Target("`presence serve`, 64 connections, × before", 2, False, _over_before("serve", "64 connections", "rate")),
    Target("processor that the middleware adds to a route, µs", 80, True,
           _added("route", "with the middleware", "client_us", "no session")),
    Target("FastAPI site, 64 connections, requests/s, × no session", 0.5, False,
           _over("fastapi", "64 connections, our middleware", "rate", "64 connections, no session")),
    Target("FastAPI site, 64 connections, requests/s, × one HGETALL", 1.15, False,
           _over("fastapi", "64 connections, our middleware", "rate", "64 connections, one HGETALL")),
    Target("FastAPI site, 300 connections, p99, × one HGETALL", 1.2, True,
           _over("fastapi", "300 connections, our middleware", "p99_ms", "300 connections, one HGETALL")),
    Target("FastAPI site, 300 connections, errors", 0, True, _sum_of("fastapi", "300 connections, our middleware")),
    Target("first changes, errors", 0, True, _sum_of("first_changes")),
)  # fmt: skip


def read(side: str, files: Sequence[Path], into: Runs) -> None:
    """Add the rounds of these files. Messages of errors are left out: they name addresses."""
    for file in files:
        for entry in json.loads(file.read_text("utf-8"))["rounds"]:
            case = into.setdefault(entry["work"], {}).setdefault(entry["case"], {name: [] for name in SIDES})
            case[side].append({name: value for name, value in entry["figures"].items() if name in COLUMNS})


def merged(stored: Runs, found: Runs) -> Runs:
    """The stored runs, with the cases that were found in place of theirs."""
    return {work: stored.get(work, {}) | found.get(work, {}) for work in dict.fromkeys([*stored, *found])}


def stored_runs() -> Runs:
    runs: Runs = json.loads(STORED.read_text("utf-8")) if STORED.exists() else {}
    return runs


def derived(runs: Runs) -> str:
    """The generated part of the page."""
    return "\n".join(_lines(runs))


def _lines(runs: Runs) -> Iterator[str]:
    yield from markdown(("work", "target", "before", "after", "result"), [target.row(runs) for target in TARGETS])
    for work in WORKS:
        if cases := runs.get(work.key):
            yield f"### {work.title}"
            yield ""
            yield from _table(work, cases, runs)


def _table(work: Work, cases: dict[str, dict[str, list[Json]]], runs: Runs) -> Iterator[str]:
    measured = {name for sides in cases.values() for rounds in sides.values() for seen in rounds for name in seen}
    figures = [name for name in COLUMNS if name in measured]
    compared = any(case.endswith(NO_SESSION) for case in cases)
    rows = []
    for case in cases:
        row = [case, *(_cell(runs, work.key, case, figure) for figure in figures)]
        if compared:
            base = case.rpartition(", ")[0] + NO_SESSION
            row.append(_sides(_over(work.key, case, "rate", base), runs))
        rows.append(row)
    head = [work.cases, *(COLUMNS[name] for name in figures), *(["× no session"] if compared else [])]
    yield from markdown(head, rows)


def _cell(runs: Runs, work: str, case: str, figure: str) -> str:
    if figure in SUMS:
        return _sides(
            lambda runs, side: [sum(found)] if (found := _values(runs, side, work, case, figure)) else [], runs
        )
    shown = _sides(lambda runs, side: _values(runs, side, work, case, figure), runs)
    paired = _over_before(work, case, figure)(runs, "after")
    return f"{shown} ({median(paired):.2f} ×)" if paired else shown


def _sides(values: Values, runs: Runs) -> str:
    """The medians: before → after; one of them if the other was not measured."""
    before, after = (values(runs, side) for side in SIDES)
    shown = [_short(median(before))] if before else []
    return " → ".join([*shown, *([f"**{_short(median(after))}**"] if after else [])])


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"
