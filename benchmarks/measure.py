"""Two ways of doing a thing, timed in turn on the same server; medians, ratios, and what it cost either side."""

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
"""Command → the share of its calls that scripts made."""


@dataclass(frozen=True, slots=True)
class Side:
    """One way of doing a thing. Only ``run`` is timed."""

    run: Callable[[Any], object]
    prepare: Callable[[], Any] = lambda: None  #: what the next run is given
    after: Callable[[Any], object] | None = None  #: puts away what the run of this material left


@dataclass(frozen=True, slots=True)
class Target:
    """A figure that was promised, beside the one that was measured."""

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
    """Wall times of one side, and what one unit of its work took of the processors."""

    us: list[float]
    units: int
    server_us: float  #: of Redis running commands and scripts, each counted once, per unit
    lua_us: float  #: of that, what scripts took beside the commands that they called
    server_cpu_us: float  #: of the server's main thread, reading and writing sockets included, per unit
    client_cpu_us: float  #: of this process, per unit

    @property
    def p50(self) -> float:
        return median(self.us)

    @property
    def p99(self) -> float:
        return sorted(self.us)[min(len(self.us) - 1, int(len(self.us) * 0.99))]

    @property
    def best(self) -> float:
        """The fastest run: what a machine with nothing else to do might come near to."""
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
    compared: str  #: with what, in a sentence
    unit: str = ""
    ours: Times | None = None
    bare: Times | None = None
    ratio: float | None = None  #: median over neighbouring runs of ours / bare
    waited: float | None = None  #: of the time, how much server or client was ready to go on with no core free
    calls: Json = field(
        default_factory=dict
    )  #: script → how often, µs a call, and of the slow ones p50 and longest, ms
    undisturbed: list[float] = field(default_factory=list)  #: longest call, ms, of each run without waiting for a core
    figures: Json = field(default_factory=dict)
    targets: list[Target] = field(default_factory=list)

    @property
    def longest(self) -> Json | None:
        """The spread of the script with the longest call; None when none took long enough to be logged."""
        logged = [call for call in self.calls.values() if "longest_ms" in call]
        return max(logged, key=lambda call: float(call["longest_ms"]), default=None)

    def as_json(self) -> Json:
        out: Json = {"name": self.name, "compared": self.compared, "unit": self.unit}
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


def _short(value: Any) -> Any:
    """Four digits are more than a noisy machine can tell apart."""
    if isinstance(value, float):
        return float(f"{value:.4g}") if abs(value) < 1000 else round(value)
    return value


def compare(
    stage: Stage, name: str, compared: str | None, ours: Side, bare: Side, *, runs: int, units: int = 1, unit: str = ""
) -> Result:
    """Run both sides in turn, A B A B …, then each alone for what it costs server and client.

    Neighbours share whatever else the machine was doing, so the median of their ratios is steadier than any time.
    ``units`` is how many sessions, refs or rows one run handles.
    """
    stage.progress(name)
    sides = (ours, bare)
    # Before anything is measured: connections, scripts, caches.
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
    """The slow script calls of one benchmark, and which of its runs nobody else disturbed."""

    def __init__(self, stage: Stage, *, each_run: bool) -> None:
        self.calls: dict[str, list[float]] = {}
        self.undisturbed: list[float] = []  # the longest call of each run in which the server hardly waited for a core
        self._stage, self._each_run = stage, each_run

    def watch(self, side: Side) -> float:
        """Time one run. Reading the log each time would dominate runs of a single call: it is read in the end then."""
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
            self.undisturbed.append(max((one for ms in found.values() for one in ms), default=0.0))


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
    """Which share of each command's calls scripts make in a run, by MONITOR: INFO does not tell them apart."""
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
    for one in given:
        side.run(one)
    own = (time.process_time_ns() - cpu) / 1000
    used = stage.meter() - before
    if side.after:
        for one in given:
            side.after(one)
    total = runs * units
    calls: Json = {}
    if used.script_calls:
        calls["all scripts"] = {"calls": used.script_calls, "us_per_call": _short(used.script_us / used.script_calls)}
    command_us, script_us = used.once_us(shares), used.script_us
    lua_us = max(0.0, script_us - used.called_us(shares)) if script_us else 0.0
    return (command_us / total, lua_us / total, used.cpu_us / total, own / total), calls


def spread(values: Sequence[float]) -> Json:
    """How often, and p50, p99 and longest of some milliseconds."""
    ordered = sorted(values)
    return {
        "logged": len(ordered),
        "logged_p50_ms": _short(median(ordered)),
        "logged_p99_ms": _short(ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]),
        "longest_ms": _short(ordered[-1]),
    }
