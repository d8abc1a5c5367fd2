"""``python -m benchmarks [--sizes 10k,100k,1m] [--server valkey|redis|both] [--only name,…] [--json FILE]``

``python -m benchmarks peers``, ``growth``, ``soak``, ``busy``, ``move``, ``instructions`` and ``compare`` have options
of their own.
``capacity`` calculates what many sessions need from the results of ``growth``.
"""

from __future__ import annotations

import argparse
import gc
import os
import re
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks import move, picture, report, rows
from benchmarks.measure import Json, Result
from benchmarks.methods import ending, memory, reading, search, sites
from benchmarks.stage import Stage, binaries

Benchmark = Callable[[Stage], Result | None]

# The order matters: first the benchmarks that change nothing, then those that add sessions, last those that end them.
BENCHMARKS: Final[dict[str, Benchmark]] = {
    "memory": memory.memory,
    "page_first": reading.page_first,
    "page_read": reading.page_read,
    "page_growth": reading.page_growth,
    "page_deep": reading.page_deep,
    "page_deep_gone": reading.page_deep_gone,
    "page_last_seen": reading.page_last_seen,
    "page_last_seen_filtered": reading.page_last_seen_filtered,
    "page_last_seen_rare": reading.page_last_seen_rare,
    "pages_last_seen": reading.pages_last_seen,
    "sessions": reading.sessions,
    "get": reading.get,
    "counts": reading.counts,
    "online_among": reading.online_among,
    "count_users": reading.count_users,
    "search_uid": search.search_uid,
    "search_ip": search.search_ip,
    "search_cidr": search.search_cidr,
    "search_name": search.search_name,
    "search_text": search.search_text,
    "search_words": search.search_words,
    "search_domain": search.search_domain,
    "search_digits": search.search_digits,
    "search_session": search.search_session,
    "search_people": search.search_people,
    "search_dense": search.search_dense,
    "search_device": search.search_device,
    "search_range": search.search_range,
    "search_two": search.search_two,
    "search_three": search.search_three,
    "search_contains": search.search_contains,
    "search_nothing": search.search_nothing,
    "facets": search.facets,
    "heartbeats_during_scan": search.heartbeats_during_scan,
    "validate": sites.validate,
    "validate_decoded": sites.validate_decoded,
    "heartbeat": sites.heartbeat,
    "heartbeats_1000": sites.heartbeats_1000,
    "heartbeats_5000": sites.heartbeats_5000,
    "login": sites.login,
    "kick": ending.kick,
    "kick_all": ending.kick_all,
    "kick_three": ending.kick_three,
    "logout": ending.logout,
    "login_many": sites.login_many,
    "sweep": ending.sweep,
    "purge": ending.purge,
    "tombstones": memory.tombstones,
    "ended": memory.ended,
    "reshard": move.reshard,
}

OWN_SERVER: Final = {"tombstones", "ended", "reshard"}
"""They do not depend on the number of live sessions: one run for each server is enough."""

COMMANDS: Final = {
    "growth": "benchmarks.capacity.growth",
    "capacity": "benchmarks.capacity.model",
    "soak": "benchmarks.soak.run",
    "move": "benchmarks.move",
    "instructions": "benchmarks.instructions",
    "commuters": "benchmarks.commuters",
    "compare": "benchmarks.rows",
    "busy": "benchmarks.busy.run",
}
"""Commands with options of their own, and their modules."""


def _size(text: str) -> int:
    match = re.fullmatch(r"(\d+)([km]?)", text.strip().lower())
    if not match or not 10_000 <= (size := int(match[1]) * {"": 1, "k": 1000, "m": 1_000_000}[match[2]]) <= 10_000_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size from 10k to 10m")
    return size


def _names(text: str) -> list[str]:
    names = list(rows.NAMES) if text == "rows" else [name.strip() for name in text.split(",")]
    if unknown := [name for name in names if name not in BENCHMARKS]:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(BENCHMARKS)}")
    return [name for name in BENCHMARKS if name in names]  # those that end sessions last


def _arguments() -> argparse.Namespace:
    listing = "\n".join(f"  {name:<17} {' '.join((run.__doc__ or '').split())}" for name, run in BENCHMARKS.items())
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Compare the library with bare Redis commands.",
        epilog=f"benchmarks:\n{listing}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--sizes", default="10k,100k,1m", type=lambda text: sorted({_size(text_size) for text_size in text.split(",")})
    )
    parser.add_argument("--server", default="both", choices=("valkey", "redis", "both"))
    parser.add_argument(
        "--only",
        type=_names,
        help="comma-separated benchmarks, or rows: those with a row in the table; no files are written",
    )
    parser.add_argument("--json", type=Path, help="one file for all results, instead of results/<server>-<size>.json")
    return parser.parse_args()


def _run(server: str, size: int, names: list[str]) -> tuple[Json, list[Result]]:
    begin, load = time.monotonic(), os.getloadavg()[0]
    with TemporaryDirectory(prefix="bench-") as directory, Stage(server, size, Path(directory)) as stage:
        if set(names) - OWN_SERVER:
            stage.load()
        gc.collect()
        gc.freeze()  # keeps the 100,000 tickets of the stage out of garbage collection
        results = []
        for name in names:
            if result := BENCHMARKS[name](stage):
                result.benchmark = name
                results.append(result)
        about = stage.about() | {"load_average": round(load, 2), "cores": os.cpu_count(), "seconds": 0}
    gc.unfreeze()
    return about | {"seconds": round(time.monotonic() - begin)}, results


def _command(name: str) -> Callable[[list[str]], int] | None:
    """The command with options of its own; None if there is none of this name."""
    if name == "peers":
        from benchmarks.peers import command

        return lambda words: command.main(words, _size)
    module = COMMANDS.get(name)
    return import_module(module).main if module else None


def main() -> int:
    if run := _command(sys.argv[1] if len(sys.argv) > 1 else ""):
        return run(sys.argv[2:])
    arguments = _arguments()
    found = binaries()
    servers = [name for name in ("valkey", "redis") if arguments.server in (name, "both")]
    missing = [name for name in servers if name not in found]
    if missing and arguments.server != "both":
        sys.exit(f"No {missing[0]} server binary was found.")
    documents, missed = [], 0
    for size in arguments.sizes:
        for server in servers:
            if server in missing:
                print(f"No {server} server binary was found, so it is left out.", file=sys.stderr)
                continue
            names = arguments.only or list(BENCHMARKS)
            if size != arguments.sizes[-1]:
                names = [name for name in names if name not in OWN_SERVER]
            about, results = _run(server, size, names)
            print(report.table(about, results), end="\n\n", flush=True)
            documents.append(report.as_json(about, results))
            missed += sum(not target.met for result in results for target in result.targets)
            if not arguments.only and not arguments.json:
                file = report.RESULTS / f"{server}-{report.size_name(size)}.json"
                report.write(file, documents[-1])
                if file.name == picture.SOURCE:
                    picture.FILE.write_text(picture.draw(documents[-1]), "utf-8")
    if arguments.json:
        report.write(arguments.json, documents)
    print(f"{missed} targets missed." if missed else "All targets met.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
