"""``python -m benchmarks peers [--sizes 10k,100k] [--server valkey|redis|both] [--only name,…] [--json FILE]``"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks import report
from benchmarks.data import SEED
from benchmarks.measure import Json
from benchmarks.peers import expiry, table
from benchmarks.peers.driver import PeerServer, programs
from benchmarks.peers.install import KINDS, ROOT, Kind, Missing, install
from benchmarks.peers.rounds import TURN_US, Rounds
from benchmarks.stage import binaries

SHOWN: Final = report.RESULTS / "peers-valkey-100k.json"
"""The run that these pages show."""

PAGE: Final = report.TABLES
README: Final = ROOT / "README.md"


def _arguments(words: Sequence[str], size: Callable[[str], int]) -> argparse.Namespace:
    every = ", ".join(kind.key for kind in KINDS[1:])
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks peers",
        description="Compare the library with other session stores (peers) on one server. Installs them into .peers/.",
    )
    parser.add_argument(
        "--sizes", default="100k", type=lambda text: sorted({size(text_size) for text_size in text.split(",")})
    )
    parser.add_argument("--server", default="valkey", choices=("valkey", "redis", "both"))
    parser.add_argument(
        "--only", type=_kinds, default=KINDS, help=f"comma-separated peers, of: {every}; ours always runs"
    )
    parser.add_argument(
        "--json", type=Path, help="one file for all results, instead of results/peers-<server>-<size>.json"
    )
    return parser.parse_args(words)


def _kinds(text: str) -> tuple[Kind, ...]:
    names = {name.strip() for name in text.split(",")} | {"ours"}
    if unknown := sorted(names - {kind.key for kind in KINDS}):
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(kind.key for kind in KINDS)}")
    return tuple(kind for kind in KINDS if kind.key in names)


def main(words: Sequence[str], size: Callable[[str], int]) -> int:
    """Parse the options; ``size`` parses 10k, 100k and the like."""
    arguments = _arguments(words, size)
    found = binaries()
    servers = [name for name in ("valkey", "redis") if arguments.server in (name, "both")]
    if missing := [name for name in servers if name not in found]:
        sys.exit(f"No {missing[0]} server binary was found.")
    kinds = able(arguments.only)
    documents = []
    for count in arguments.sizes:
        for server in servers:
            text, document = run(server, count, kinds)
            print(text, end="\n\n", flush=True)
            documents.append(document)
            if len(kinds) == len(KINDS) and not arguments.json:
                file = report.RESULTS / f"peers-{server}-{report.size_name(count)}.json"
                report.write(file, document)
                if file == SHOWN:
                    report.replace_part(PAGE, "peers", text)
                    report.replace_part(README, "peers", table.summary(document))
    if arguments.json:
        report.write(arguments.json, documents)
    return 0


def able(kinds: Sequence[Kind]) -> list[Kind]:
    """The peers that can be installed here; prints why the others cannot."""
    reasons: dict[str, str] = {}
    for needs in dict.fromkeys(kind.needs for kind in kinds):
        try:
            install(needs)
        except Missing as reason:
            reasons[needs] = str(reason)
            out = ", ".join(kind.title for kind in kinds if kind.needs == needs)
            print(f"{reason} Left out: {out}.", file=sys.stderr)
    return [kind for kind in kinds if kind.needs not in reasons]


def run(server: str, size: int, kinds: Sequence[Kind], turn_us: float = TURN_US) -> tuple[str, Json]:
    """Run everything once: the tables and the JSON document."""
    begun, load = time.monotonic(), os.getloadavg()[0]
    with (
        TemporaryDirectory(prefix="peers-") as directory,
        PeerServer(server, Path(directory)) as stage,
        programs(kinds, stage) as peers,
    ):
        quiet = expiry.idle(stage, min(2.0, size / 10_000))
        rounds = Rounds(stage, peers, size, turn_us)
        rounds.load()
        lines = rounds.run()
        ends: dict[str, Json] = {}
        for peer in (store for store in peers if store.alive or not store.can("expire")):
            print(f"  mass expiry: {peer.kind.title} …", file=sys.stderr, flush=True)
            ends[peer.kind.key] = expiry.expire(stage, peer)
        about = {
            "server": stage.version(), "sessions": size, "machine": platform.machine(), "cores": os.cpu_count(),
            "load_average": round(load, 2), "seed": SEED, "seconds": round(time.monotonic() - begun),
            "probe_with_nothing_going_on": quiet, "peers": {peer.kind.key: peer.about for peer in peers},
        }  # fmt: skip
    text = table.tables(about, kinds, lines, rounds.bytes, ends)
    return text, table.as_json(about, lines, rounds.bytes, ends)
