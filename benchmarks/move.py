"""``python -m benchmarks move``: how much a reshard delays other clients.

Reshards there and back while visitors log in, send heartbeats, validate and are kicked at a constant rate, from a
process of their own. Reports for each reshard: its duration, how long writes were frozen, and how many calls were
refused.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import time
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.data import imported_logins
from benchmarks.measure import Result, Target
from benchmarks.stage import LOADED_SPAN, SETTINGS, Stage, binaries
from presence_core import Presence, Unavailable
from tests.support.servers import Server

CHUNK = 5_000
QUIET = ("--save", "", "--appendonly", "no")


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser("python -m benchmarks move", description=__doc__)
    parser.add_argument("--sessions", type=int, default=100_000)
    parser.add_argument("--shards", type=int, nargs=2, default=(1, 4), metavar=("FROM", "TO"))
    parser.add_argument("--rate", type=int, default=100, help="visitors a second: four calls each (100)")
    parser.add_argument("--server", choices=sorted(binaries()), default=next(iter(binaries())))
    parser.add_argument("--json", type=Path, metavar="FILE")
    args = parser.parse_args(argv)
    binary = binaries()[args.server]
    with TemporaryDirectory(prefix="move-") as place, Server.start(binary, Path(place), *QUIET, port=True) as server:
        before, after = args.shards
        reports = _measure(server.url, args.sessions, before, (after, before), args.rate)
    for move in reports:
        print(", ".join(f"{name} {value:,}" for name, value in move.items()))
    if args.json:
        args.json.write_text(json.dumps(reports, indent=1) + "\n")
    return 0


def reshard(stage: Stage) -> Result:
    """Reshard 100,000 sessions (or as many as there are) from 1 to 4 shards, on a server of its own with 400 calls a
    second."""
    stage.progress("reshard")
    binary, count = binaries()[stage.server], min(stage.size, 100_000)
    with TemporaryDirectory(prefix="move-") as place, Server.start(binary, Path(place), *QUIET, port=True) as server:
        [report] = _measure(server.url, count, 1, (4,), 100)
    result = Result("reshard", " ".join((reshard.__doc__ or "").split()), figures=report)
    result.targets.append(Target("s", 8, report["copied in s"] + report["last changes and indexes in s"]))
    return result


def _measure(url: str, sessions: int, before: int, goals: Sequence[int], rate: int) -> list[dict[str, Any]]:
    with Presence.from_url(url, replace(SETTINGS, shards=before)) as presence:
        rows = imported_logins(sessions, time.time(), LOADED_SPAN)
        while chunk := list(itertools.islice(rows, CHUNK)):
            presence.login_many(chunk, imported=True)
        return [_move(presence, url, goal, rate) for goal in goals]


def _move(presence: Presence, url: str, goal: int, rate: int) -> dict[str, Any]:
    marks: dict[str, float] = {}
    ours, theirs = multiprocessing.Pipe()
    visitors = multiprocessing.get_context("spawn").Process(target=_visit, args=(url, rate, theirs))
    visitors.start()
    ours.recv()  # the visitors have begun
    time.sleep(2)
    begun = time.monotonic()
    done = presence.reshard(goal, on_progress=lambda step, _: marks.setdefault(step, time.monotonic()))
    ended = time.monotonic()
    time.sleep(2)
    ours.send("enough")
    took, refused = ours.recv()
    visitors.join()
    if presence.repair().repaired:
        raise SystemExit("The reshard lost data: repair found something.")
    waits = sorted(ms for _, ms in took)
    alone = sorted(ms for at, ms in took if not begun <= at <= ended)
    return {
        "from": done.before,
        "to": done.shards,
        "sessions": done.sessions,
        "keys": done.keys,
        "copied in s": round(marks["last"] - begun, 1),
        "last changes and indexes in s": round(marks["remove"] - marks["last"] - 7.5, 1),
        "calls": len(took),
        "refused": refused,
        "p99 ms": round(quantiles(waits, n=100)[98], 1),
        "p99 ms without a reshard": round(quantiles(alone, n=100)[98], 1),
        "longest ms": round(waits[-1]),
    }


def _visit(url: str, rate: int, driver: Connection) -> None:
    """Each visitor logs in, sends a heartbeat, validates, and is kicked: the time of each call, and how many were
    refused."""
    took: list[tuple[float, float]] = []
    refused, count = 0, 0
    with Presence.from_url(url) as presence:
        presence.counts()
        driver.send("begun")
        begun = time.monotonic()
        while not driver.poll():
            uid, sid = f"visitor{count}", f"visit-{begun:.0f}-{count:09}"
            for call in (
                lambda: presence.login(uid, session_id=sid),  # noqa: B023
                lambda: presence.heartbeat(uid, sid),  # noqa: B023
                lambda: presence.validate_session(uid, sid),  # noqa: B023
                lambda: presence.kick(uid, by="benchmark", reason="move"),  # noqa: B023
            ):
                at = time.monotonic()
                try:
                    call()
                except Unavailable:
                    refused += 1
                took.append((at, (time.monotonic() - at) * 1000))
            count += 1
            time.sleep(max(0.0, begun + count / rate - time.monotonic()))
        driver.recv()
    driver.send((took, refused))
