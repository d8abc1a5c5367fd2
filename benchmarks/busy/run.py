"""``python -m benchmarks busy``: a busy site. With --before or --after: the tables from runs."""

from __future__ import annotations

import argparse
import logging
import os
import platform
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import redis as redis_py

from benchmarks import report
from benchmarks.busy import clients, first_changes, page, sites
from benchmarks.busy.load import TOPOLOGIES, Redis, Say, redis_of
from benchmarks.measure import Json
from benchmarks.rows import SIDES

Load = Callable[[Redis, argparse.Namespace, Say], None]


def _timed(run: Callable[[Redis, int, float, Say], None]) -> Load:
    return lambda redis, arguments, say: run(redis, arguments.rounds, arguments.seconds, say)


LOADS: Final[dict[str, Load]] = {
    "in_flight": _timed(clients.in_flight),
    "threads": _timed(clients.threads),
    "route": _timed(clients.route),
    "fastapi": _timed(sites.fastapi),
    "flask": _timed(sites.flask),
    "serve": _timed(sites.serve),
    "first_changes": lambda redis, arguments, say: first_changes.first_changes(redis, arguments.calls, say),
}


def main(words: Sequence[str]) -> int:
    """Run the loads, or write the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks busy", description=__doc__)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(LOADS), metavar=",".join(LOADS))
    parser.add_argument("--topology", choices=TOPOLOGIES, default="one")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0, help="length of a load in a round")
    parser.add_argument("--calls", type=int, default=100, help="first calls of each method")
    parser.add_argument("--json", type=Path, help="write the figures of this run")
    for side in SIDES:
        parser.add_argument(f"--{side}", type=Path, nargs="+", default=[], metavar="FILE")
    arguments = parser.parse_args(words)
    if arguments.before or arguments.after:
        if arguments.before and arguments.after and len(arguments.before) != len(arguments.after):
            parser.error("give as many files for --before as for --after: they are paired")
        return _write_page({side: getattr(arguments, side) for side in SIDES})
    logging.disable()  # what fails is counted
    rounds: list[Json] = []
    for name in arguments.only:
        with redis_of(arguments.topology) as redis:
            about = _about(redis)
            LOADS[name](redis, arguments, partial(_say, rounds))
    if arguments.json:
        report.write(arguments.json, about | {"rounds": rounds})
    return 0


def _write_page(files: dict[str, list[Path]]) -> int:
    found: page.Runs = {}
    for side in SIDES:
        page.read(side, files[side], found)
    runs = page.merged(page.stored_runs(), found)
    report.write(page.STORED, runs)
    report.replace_part(page.PAGE, "busy", page.derived(runs))
    print(page.derived(runs))
    return 0


def _say(rounds: list[Json], work: str, case: str, figures: Json) -> None:
    rounds.append({"work": work, "case": case, "figures": figures})
    print(f"{work:<14}{case:<44}", *(f"{name} {value}" for name, value in figures.items()), sep="  ", flush=True)


def _about(redis: Redis) -> Json:
    return {
        "server": redis.version, "python": platform.python_version(), "redis_py": redis_py.__version__,
        "cores": os.cpu_count(), "load_average": round(os.getloadavg()[0], 2),
    }  # fmt: skip
