"""``python -m benchmarks soak``: a site with a million sessions for ten minutes, and a check of every promise.

By default 10,000 heartbeats, 200 logins and 50 kicks a second and twenty dashboards. As many sessions expire as keep
the number online constant, and a ``presence worker`` sweeps them. No client slows down because a reply is late. It
keeps its own books, without the library, of the sessions that must be live. At the end the list, counts, totals, users
and facets must agree with them, and ``repair`` must find nothing. The exit code is 1 if a promise was broken.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import multiprocessing
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks import report
from benchmarks.data import SEED, USERS_PER_SESSION, Row, logins
from benchmarks.measure import Json, Target
from benchmarks.soak import crowd
from benchmarks.soak.crowd import Scene, Story
from benchmarks.stage import Stage, binaries
from benchmarks.web import ROOT
from presence_core import Login, Presence, Settings
from presence_core.operations.maintenance import leader

CHUNK: Final = 10_000
IDLE: Final = Settings().idle_timeout
LEAVERS: Final = 100_000_000
"""Users whose sessions expire during the run have numbers from here on."""

REACHED: Final = 0.99
LAG: Final = 10.0
GROWTH: Final = 0.01
"""Limit for the growth of the server's memory from the middle to the last third of the run: this share, or 1 MB."""

GROWTH_MB: Final = 10.0
"""The same limit for the worker and the dashboards, in MB."""

WATCH: Final = 1.0
PAGE: Final = report.TABLES
STORED: Final = "soak-valkey-1m.json"
"""The run that benchmarks/results/README.md shows, and the capacity model is compared with."""

NAMES: Final = {"heartbeats": "a flush of heartbeats", "search": "search, as on the Sessions page"}
_fork = multiprocessing.get_context("fork")  # children inherit a million refs by fork instead of receiving them


@dataclass(slots=True)
class Watched:
    """Measured from outside during the run; MB, seconds."""

    at: list[float] = field(default_factory=list)
    server: list[float] = field(default_factory=list)
    lag: list[float] = field(default_factory=list)
    others: dict[str, list[float]] = field(default_factory=dict)
    longest: dict[str, float] = field(default_factory=dict)  #: script → ms of its longest call over 1 ms

    def growth(self, memory: list[float]) -> float:
        """Growth in MB from the middle to the last third: during the first third no tombstone expires."""
        third = max(1, len(memory) // 3)
        return median(memory[-third:]) - median(memory[-2 * third : -third] or memory[-third:])


def resident(pid: int) -> float:
    """Memory of a process, MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 1e6


# -- before -----------------------------------------------------------------------------------------------------------


def _settings(seconds: float, sessions: int) -> Settings:
    """Tombstones are kept for a fifth of the run, so that memory can be constant and a leak shows."""
    keep = max(5, round(seconds / 5))
    return Settings(keep_kicked=keep, keep_replaced=keep, keep_expired=keep, keep_logout=keep, keep_people=keep,
                    max_events=min(100_000, sessions), max_audit=1_000)  # fmt: skip


def _load(stage: Stage, rows: Iterator[Row], times: Callable[[int, Row], None], count: int) -> list[str]:
    """Log in these users; returns their refs."""
    refs: list[str] = []
    begun = time.monotonic()
    with Presence.from_url(stage.url, replace(stage.presence.settings, timeout=30)) as presence:
        while chunk := list(itertools.islice(rows, CHUNK)):
            for place, row in enumerate(chunk, len(refs)):
                times(place, row)
            for login in presence.login_many(chunk, imported=True):
                assert isinstance(login, Login), login
                refs.append(login.session.ref)
            if len(refs) % (10 * CHUNK) == 0:
                stage.progress(
                    f"{len(refs):,} of {count:,} loaded, {len(refs) / (time.monotonic() - begun):,.0f} a second"
                )
    return refs


def _log_in_staying(stage: Stage, count: int) -> list[str]:
    rng = random.Random(SEED)

    def times(place: int, row: Row) -> None:
        now = time.time()
        row["login_at"] = now - 3 * 3600 * (1 - place / count) - 1
        row["last_seen"] = max(row["login_at"], now - 300 * rng.random())

    return _load(stage, logins(count), times, count)


def _log_in_leaving(stage: Stage, count: int, rate: float, per_second: float) -> tuple[list[str], float]:
    """Log in sessions that get no heartbeat; and the time, Unix seconds, at which the first of them is due."""
    rng, first = random.Random(SEED), time.time() + 5 + 2 * count / per_second

    def times(place: int, row: Row) -> None:
        row["last_seen"] = first + place / rate - IDLE
        row["login_at"] = row["last_seen"] - 3600 * rng.random()

    return (_load(stage, logins(count, first_user=LEAVERS), times, count) if count else []), first


def _newcomers(args: argparse.Namespace) -> Callable[[int], Iterator[Row]]:
    """New people for each login thread; half of them already have a session."""
    count = round(args.logins * args.minutes * 60 / crowd.THREADS) + 1
    users = round(count * USERS_PER_SESSION)
    first = max(0, round(args.sessions * USERS_PER_SESSION) - crowd.THREADS // 2 * users)

    def rows(number: int) -> Iterator[Row]:
        some = logins(count, first_user=first + number * users)
        return itertools.chain(list(itertools.islice(some, 1)), some)  # draw one now: the first takes longest

    return rows


# -- while it runs ----------------------------------------------------------------------------------------------------


def _in_a_process(act: Callable[[], Story]) -> tuple[multiprocessing.process.BaseProcess, Connection]:
    here, there = _fork.Pipe(duplex=False)
    process = _fork.Process(target=lambda: there.send(act()), daemon=True)
    process.start()
    there.close()
    return process, here


def _worker(url: str, settings: Settings, log: Path) -> subprocess.Popen[bytes]:
    """``presence worker`` with the same settings in its environment. A warning would be in its log."""
    ours = {field.name: getattr(settings, field.name) for field in fields(Settings)}
    environ = {
        f"PRESENCE_{name.upper()}": str(value) for name, value in ours.items() if value != getattr(Settings(), name)
    }
    command = [sys.executable, "-m", "presence_core.cli", "worker"]
    with log.open("wb") as file:
        return subprocess.Popen(
            command,
            cwd=ROOT,
            env=os.environ | environ | {"PRESENCE_REDIS_URL": url, "PRESENCE_LOG": "text"},
            stderr=file,
        )


def _lag(stage: Stage) -> float:
    """Sweep lag: how long the oldest session that is due has waited."""
    seconds, micro = stage.redis.time()
    return (
        stage.presence.internal.run(leader.lag(stage.presence.internal.context, seconds * 1000 + micro // 1000)) / 1000
    )


def _watch(stage: Stage, scene: Scene, pids: dict[str, int]) -> Watched:
    seen = Watched(others={name: [] for name in pids})
    for number in itertools.count():
        moment = scene.begin + number * WATCH
        if moment > scene.end:
            return seen
        time.sleep(max(0.0, moment - time.monotonic()))
        info = stage.redis.info("memory")
        seen.at.append(moment - scene.begin)
        seen.server.append((int(info["used_memory"]) - int(info["mem_clients_normal"])) / 1e6)
        seen.lag.append(_lag(stage))
        for name, ms in stage.slow_log().items():  # and clear it, because it would grow
            seen.longest[name] = max(seen.longest.get(name, 0.0), *ms)
        for name, pid in pids.items():
            seen.others[name].append(resident(pid))
        if number % 30 == 0:
            stage.progress(f"{number} s of {scene.seconds:.0f}: {seen.server[-1]:,.1f} MB, lag {seen.lag[-1]:.1f} s")
    raise AssertionError


# -- after ------------------------------------------------------------------------------------------------------------


def _reckoning(stage: Stage, scene: Scene, left: list[str], stories: Sequence[Story]) -> dict[str, int]:
    """Differences between the library and the books of the load; all 0 if every promise was kept."""
    began = [ref for story in stories for ref in story.began]
    kicked = {ref for story in stories for ref in story.kicked}
    offline = {ref for story in stories for ref in story.offline}
    expected = set(scene.refs).union(began) - kicked
    presence = stage.presence
    counts = presence.counts()
    stage.progress("the whole list is held against the books")
    listed = [session.ref for session in presence.iter_sessions(page_size=1000)]
    wanted = {"login": len(scene.refs) + len(left) + len(began), "kicked": len(kicked), "expired": len(left),
              "logout": 0, "replaced": 0}  # fmt: skip
    off = {
        "counts().sessions": abs(counts.sessions - len(expected)),
        "counts().users": abs(counts.users - len({ref.rpartition(":")[0] for ref in expected})),
        "counts().totals": sum(abs(counts.totals.get(name, 0) - number) for name, number in wanted.items()),
        "list: missing, strange or twice": len(expected.symmetric_difference(listed)) + len(listed) - len(set(listed)),
        "facets": sum(abs(sum(presence.facets(name).values()) - len(expected)) for name in ("device", "app")),
        "reported offline, though live": len(offline - kicked - set(left)),
    }
    stage.progress("repair")
    repaired = presence.repair()
    return off | {"found by repair": repaired.repaired + repaired.expired}


def _settle(stage: Stage, until: float) -> None:
    """Wait until the last expiring session is due and swept."""
    while time.time() < until or (swept := stage.presence.counts().swept_at) is None or swept.timestamp() < until:
        time.sleep(0.5)


def _promises(seen: Watched, stories: Sequence[Story], warnings: list[str], off: dict[str, int]) -> list[Target]:
    base = median(seen.server[-2 * len(seen.server) // 3 :])
    found = [
        Target("errors", 0, sum(story.failed for story in stories)),
        Target("warnings in the worker's log", 0, len(warnings)),
        Target("sweep lag, s", LAG, max(seen.lag)),
        Target("server: memory, growth in MB", round(max(1.0, GROWTH * base), 1), seen.growth(seen.server)),
    ]
    found += [Target(f"{name}: memory, growth in MB", GROWTH_MB, seen.growth(of)) for name, of in seen.others.items()]
    found += [Target(f"{name}, share of the planned", REACHED, act.done / act.asked, at_most=False)
              for story in stories for name, act in story.acts.items() if act.asked]  # fmt: skip
    return found + [Target(f"off: {name}", 0, number) for name, number in off.items()]


def _print(document: Json) -> None:
    print(f"{document['server']}, {document['sessions']:,} sessions, {document['minutes']:g} minutes\n")
    print(f"{'':<22}{'planned/s':>10}{'reached/s':>11}{'calls':>9}{'p50 ms':>9}{'p99 ms':>9}")
    for name, act in document["acts"].items():
        print(f"{name:<22}{act['asked_per_second']:>10,.1f}{act['reached_per_second']:>11,.1f}{act['calls']:>9,}"
              f"{act.get('p50_ms', 0):>9.2f}{act.get('p99_ms', 0):>9.2f}")  # fmt: skip
    print("\n" + "\n".join(f"{name:<34}{value:>12,}" for name, value in document["figures"].items()) + "\n")
    for promise in document["promises"]:
        verdict, sign = "kept  " if promise["met"] else "BROKEN", "≤" if promise["at_most"] else "≥"
        print(f"{verdict} {promise['what']:<40}{promise['actual']:>12} {sign} {promise['limit']:g}")
    for error in document["errors"]:
        print(f"  {error}")


def page_part(document: Json) -> str:
    """The figures of a run, for benchmarks/results/README.md."""
    acts, figures = document["acts"], document["figures"]
    processor = figures["server's processor, %"]
    rates = {name: f"{acts[name]['reached_per_second']:,.0f}" for name in ("heartbeats", "login", "kick")}
    broken = [promise["what"] for promise in document["promises"] if not promise["met"]]
    lines = [
        f"{document['server']}, {document['sessions']:,} sessions, {document['minutes']:g} minutes; a second "
        f"{rates['heartbeats']} heartbeats, {rates['login']} logins and {rates['kick']} kicks; "
        f"{document['dashboards']} dashboards.",
        f"**{'Missed: ' + ', '.join(broken) if broken else 'Every promise was kept'}.** Memory of the server was "
        f"{figures['memory, least, MB']:,.0f} to {figures['memory, most, MB']:,.0f} MB, the median sweep lag "
        f"{figures['sweep lag, p50, s']:.1f} s, the server's processor {processor:.0f} %.",
        "",
    ]
    rows = [(NAMES.get(name, name), f"{act['p50_ms']:,.2f}", f"{act['p99_ms']:,.0f}") for name, act in acts.items()]
    return "\n".join([*lines, *report.markdown(("ms from the time at which it was due", "p50", "p99"), rows)])


# -- the run ----------------------------------------------------------------------------------------------------------


def _run(args: argparse.Namespace, stage: Stage, directory: Path) -> Json:
    seconds = args.minutes * 60
    leaving = max(0.0, args.logins - args.kicks)
    begun = time.monotonic()
    refs = _log_in_staying(stage, args.sessions)
    rate = args.sessions / (time.monotonic() - begun)
    left, first = _log_in_leaving(stage, round(leaving * seconds), leaving, rate)
    loaded = stage.settled_memory()
    stage.redis.config_set("slowlog-log-slower-than", 1000)
    stage.redis.config_set("slowlog-max-len", 20_000)

    scene = Scene(stage.url, stage.presence.settings, time.monotonic() + max(2.0, first - time.time()), seconds, refs)
    began_reader, began = _fork.Pipe(duplex=False)
    gc.collect()
    gc.freeze()  # no child process may scan a million refs
    acts: dict[str, Callable[[], Story]] = {
        "heartbeats": lambda: crowd.heartbeats(scene, args.heartbeats, began_reader),
        "visitors": lambda: crowd.visitors(scene, args.logins, args.kicks, _newcomers(args), began),
        "dashboards": lambda: crowd.dashboards(scene, args.dashboards),
    }
    stage.progress(f"begins in {scene.begin - time.monotonic():.0f} s")
    log = directory / "worker.log"
    worker = _worker(stage.url, stage.presence.settings, log)
    try:
        parts = {name: _in_a_process(act) for name, act in acts.items()}
        time.sleep(max(0.0, scene.begin - time.monotonic()))
        before, waited = stage.meter(), stage.waited_ns(server_only=True)
        seen = _watch(stage, scene, {"dashboards": parts["dashboards"][0].pid or 0, "worker": worker.pid})
        used, now_waited = stage.meter() - before, stage.waited_ns(server_only=True)
        stories = [pipe.recv() for _, pipe in parts.values()]
        _settle(stage, first + seconds)
    finally:
        worker.terminate()
        worker.wait()
    off = _reckoning(stage, scene, left, stories)
    warnings = [line for line in log.read_text().splitlines() if " INFO " not in line]
    promises = _promises(seen, stories, warnings, off)
    longest = sorted(seen.longest.items(), key=lambda pair: -pair[1])
    return stage.about() | {
        "minutes": args.minutes,
        "dashboards": args.dashboards,
        "load_average": round(os.getloadavg()[1], 2),
        "cores": os.cpu_count(),
        "acts": {name: act.as_json(seconds) for story in stories for name, act in story.acts.items()},
        "figures": {
            "loaded, sessions a second": round(rate),
            "memory when loaded, MB": round(loaded / 1e6, 1),
            "memory, least, MB": round(min(seen.server), 1),
            "memory, most, MB": round(max(seen.server), 1),
            "sweep lag, p50, s": round(median(seen.lag), 2),
            "server's processor, %": round(used.cpu_us / seconds / 1e4, 1),
            "server waited for a core, %": round(((now_waited or 0) - (waited or 0)) / seconds / 1e7, 1),
            **{f"longest {name}, ms": round(ms, 1) for name, ms in longest[:5]},
        },
        "memory_mb": [round(mb, 1) for mb in seen.server[:: max(1, len(seen.server) // 60)]],
        "promises": [promise.as_json() for promise in promises],
        "errors": [error for story in stories for error in story.errors] + warnings[: crowd.MAX_ERRORS],
    }


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks soak", description=__doc__)
    parser.add_argument("--sessions", type=int, default=1_000_000)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--heartbeats", type=float, default=10_000.0, metavar="PER_SECOND")
    parser.add_argument("--logins", type=float, default=200.0, metavar="PER_SECOND")
    parser.add_argument("--kicks", type=float, default=50.0, metavar="PER_SECOND")
    parser.add_argument("--dashboards", type=int, default=20)
    parser.add_argument("--server", choices=sorted(binaries()), default=next(iter(binaries())))
    parser.add_argument("--json", type=Path, help="instead of results/soak-<server>-<sessions>.json")
    args = parser.parse_args(argv)
    if args.sessions > 900 * args.heartbeats:
        parser.error("too few heartbeats: sessions would expire between two of them")
    if args.kicks * args.minutes * 60 > args.sessions / 2 or args.minutes < 0.2 or args.sessions < 1_000:
        parser.error("give it 1,000 sessions and 12 seconds at least, and twice as many sessions as are kicked")
    return args


def main(argv: Sequence[str]) -> int:
    """Run, print, and write ``results/soak-….json``. The exit code is 1 if a promise was broken."""
    args = _arguments(argv)
    settings = _settings(args.minutes * 60, args.sessions)
    with (
        TemporaryDirectory(prefix="soak-") as directory,
        Stage(args.server, args.sessions, Path(directory), settings=settings) as stage,
    ):
        document = _run(args, stage, Path(directory))
    _print(document)
    name = f"soak-{args.server}-{report.size_name(args.sessions)}.json"
    report.write(args.json or report.RESULTS / name, document)
    if not args.json and name == STORED:
        report.replace_part(PAGE, "soak", page_part(document))
    broken = sum(not promise["met"] for promise in document["promises"])
    print(f"\n{broken} promises broken." if broken else "\nEvery promise was kept.")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
