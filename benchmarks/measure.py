"""Two implementations, timed in turn on the same server: medians, ratios, and the cost for server and client."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.stage import Stage

Json = dict[str, Any]

Shares = Mapping[str, float]
"""Command → share of its calls that came from scripts."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two implementations. Only ``run`` is timed."""

    run: Callable[[Any], object]
    prepare: Callable[[], Any] = lambda: None  #: makes the argument of the next run
    after: Callable[[Any], object] | None = None  #: undoes the run with this argument


@dataclass(frozen=True, slots=True)
class Target:
    """A target and the measured figure."""

    what: str
    limit: float
    actual: float
    at_most: bool = True

    @property
    def met(self) -> bool:
        return self.actual <= self.limit if self.at_most else self.actual >= self.limit

    def as_json(self) -> Json:
        return {"what": self.what, "limit": self.limit, "actual": _short(self.actual), "at_most": self.at_most,
                "met": self.met}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Times:
    """Wall times of one side, and its processor time per unit."""

    us: list[float]
    units: int
    server_us: float  #: Redis running commands and scripts, each counted once, per unit
    lua_us: float  #: of that, Lua itself without the commands that scripts called
    server_cpu_us: float  #: the server's main thread, including sockets, per unit
    client_cpu_us: float  #: this process, per unit

    @property
    def p50(self) -> float:
        return median(self.us)

    @property
    def p99(self) -> float:
        return sorted(self.us)[min(len(self.us) - 1, int(len(self.us) * 0.99))]

    @property
    def best(self) -> float:
        """The fastest run: near what an idle machine would reach."""
        return min(self.us)

    @property
    def rate(self) -> float:
        """Units per second, by the median."""
        return self.units * 1e6 / self.p50

    def as_json(self) -> Json:
        figures = {
            "best_us": self.best,
            "p50_us": self.p50,
            "p99_us": self.p99,
            "units_per_second": self.rate,
            "server_us_per_unit": self.server_us,
            "lua_us_per_unit": self.lua_us,
            "server_cpu_us_per_unit": self.server_cpu_us,
            "client_cpu_us_per_unit": self.client_cpu_us,
        }
        return {"runs": len(self.us), "units": self.units} | {name: _short(value) for name, value in figures.items()}


@dataclass(slots=True)
class Result:
    """One line of the table."""

    name: str
    compared: str  #: what it was compared with, as a sentence
    unit: str = ""
    ours: Times | None = None
    bare: Times | None = None
    ratio: float | None = None  #: median of ours / bare over neighbouring runs
    waited: float | None = None  #: share of the time in which server or client waited for a core
    calls: Json = field(default_factory=dict)  #: script → calls, µs per call, and of the slow calls p50 and longest, ms
    undisturbed: list[float] = field(default_factory=list)  #: longest call, ms, of each run that had a core
    figures: Json = field(default_factory=dict)
    targets: list[Target] = field(default_factory=list)
    benchmark: str = ""  #: its name for ``--only``

    @property
    def longest(self) -> Json | None:
        """Percentiles of the script with the longest call; None if no call was slow enough for the slow log."""
        logged = [call for call in self.calls.values() if "longest_ms" in call]
        return max(logged, key=lambda call: float(call["longest_ms"]), default=None)

    def as_json(self) -> Json:
        out: Json = {"name": self.name, "benchmark": self.benchmark, "compared": self.compared, "unit": self.unit}
        for name, times in (("ours", self.ours), ("bare", self.bare)):
            if times:
                out[name] = times.as_json()
        if self.ratio is not None:
            out["ratio"] = _short(self.ratio)
        if self.waited is not None:
            out["waited"] = round(self.waited, 3)
        if self.undisturbed:
            out["undisturbed"] = {"runs": len(self.undisturbed), "longest_ms": _short(max(self.undisturbed))}
        out |= {"calls": self.calls} if self.calls else {}
        out |= {"figures": {name: _short(value) for name, value in self.figures.items()}} if self.figures else {}
        out["targets"] = [target.as_json() for target in self.targets]
        return out


def server_target(result: Result, limit: float) -> Result:
    """Promise at most so many µs of the server for a call."""
    assert result.ours is not None
    result.targets.append(Target("server µs", limit, result.ours.server_us))
    return result


def _short(value: Any) -> Any:
    """Round to four digits: measurements on a shared machine are not more exact."""
    if isinstance(value, float):
        return float(f"{value:.4g}") if abs(value) < 1000 else round(value)
    return value


def compare(
    stage: Stage, name: str, compared: str | None, ours: Side, bare: Side, *, runs: int, units: int = 1, unit: str = ""
) -> Result:
    """Run both sides in turn, A B A B …, then each alone for its cost on server and client.

    Other load affects neighbouring runs alike, so the median of their ratios is steadier than any time. ``units`` is
    how many sessions, refs or rows one run handles.
    """
    stage.progress(name)
    sides = (ours, bare)
    # Warm up: connections, scripts, caches.
    shares = [shares_of_scripts(stage.redis, partial(_timed, side)) for side in sides]
    stage.slow_log_clear()
    log = _Log(stage, each_run=units > 1)
    begin, waited = time.perf_counter_ns(), stage.waited_ns()
    times = [[log.watch(ours), _timed(bare)] for _ in range(runs)]
    took, now_waited = time.perf_counter_ns() - begin, stage.waited_ns()
    log.read(None)
    calls = {script: spread(ms) for script, ms in log.calls.items()}
    alone = max(2, runs // 5)
    costs = [_cost(stage, side, alone, units, share) for side, share in zip(sides, shares, strict=True)]
    for script, figures in costs[0][1].items():
        calls.setdefault(script, {}).update(figures)
    done = [Times([pair[i] for pair in times], units, *costs[i][0]) for i in (0, 1)]
    ratio = median(a / b for a, b in times)
    sentence = " ".join((compared or "").split())
    share = None if waited is None or now_waited is None else (now_waited - waited) / took
    return Result(name, sentence, unit, done[0], done[1], ratio, share, dict(sorted(calls.items())), log.undisturbed)


class _Log:
    """The slow script calls of one benchmark, and the runs that no other process disturbed."""

    def __init__(self, stage: Stage, *, each_run: bool) -> None:
        self.calls: dict[str, list[float]] = {}
        self.undisturbed: list[float] = []  # the longest call of each run in which the server hardly waited for a core
        self._stage, self._each_run = stage, each_run

    def watch(self, side: Side) -> float:
        """Time one run. Short runs read the slow log only at the end, because reading it would take longer than the
        run."""
        if not self._each_run:
            return _timed(side)
        given = side.prepare()
        self._stage.slow_log_clear()
        before = self._stage.waited_ns(server_only=True)
        took = _timed(Side(side.run, lambda: given))
        after = self._stage.waited_ns(server_only=True)
        self.read(None if before is None or after is None else after - before)
        if side.after:
            side.after(given)
        return took

    def read(self, waited_ns: int | None) -> None:
        found = self._stage.slow_log()
        for script, ms in found.items():
            self.calls.setdefault(script, []).extend(ms)
        if waited_ns is not None and waited_ns < 1_000_000:
            self.undisturbed.append(max((time_ms for ms in found.values() for time_ms in ms), default=0.0))


def _timed(side: Side) -> float:
    """Microseconds of one run."""
    given = side.prepare()
    begin = time.perf_counter_ns()
    side.run(given)
    took = time.perf_counter_ns() - begin
    if side.after:
        side.after(given)
    return took / 1000


def shares_of_scripts(client: Any, run: Callable[[], object]) -> Shares:
    """Share of each command's calls that scripts make in a run, by MONITOR, because INFO does not separate them."""
    every, called = Counter[str](), Counter[str]()
    with client.monitor() as monitor:
        run()
        client.echo("over")
        while (seen := monitor.next_command())["command"] != "ECHO over":
            name = seen["command"].partition(" ")[0].lower()
            every[name] += 1
            called[name] += seen["client_type"] == "lua"
    return {name: called[name] / every[name] for name in called}


Cost = tuple[float, float, float, float]


def _cost(stage: Stage, side: Side, runs: int, units: int, shares: Shares) -> tuple[Cost, Json]:
    """Per unit: µs of commands on the server, of Lua in that, of its main thread, of our process; and script calls."""
    given = [side.prepare() for _ in range(runs)]
    before, cpu = stage.meter(), time.process_time_ns()
    for value in given:
        side.run(value)
    own = (time.process_time_ns() - cpu) / 1000
    used = stage.meter() - before
    if side.after:
        for value in given:
            side.after(value)
    total = runs * units
    calls: Json = {}
    if used.script_calls:
        calls["all scripts"] = {"calls": used.script_calls, "us_per_call": _short(used.script_us / used.script_calls)}
    command_us, script_us = used.once_us(shares), used.script_us
    lua_us = max(0.0, script_us - used.called_us(shares)) if script_us else 0.0
    return (command_us / total, lua_us / total, used.cpu_us / total, own / total), calls


def spread(values: Sequence[float]) -> Json:
    """Number, p50, p99 and longest of some milliseconds."""
    ordered = sorted(values)
    return {
        "logged": len(ordered),
        "logged_p50_ms": _short(median(ordered)),
        "logged_p99_ms": _short(ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]),
        "longest_ms": _short(ordered[-1]),
    }
