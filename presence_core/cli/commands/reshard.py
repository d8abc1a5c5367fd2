"""Another number of shards: ``presence reshard``."""

from __future__ import annotations

import argparse
from typing import Final

from presence_core.cli.arguments import AddCommand
from presence_core.cli.output import ProgressLine, count_of, print_error, print_result
from presence_core.client import Presence

_STEPS: Final = {
    "copy": "keys copied",
    "check": "keys copied and checked",
    "change": "keys copied, with the changes made since",
    "last": "keys copied; writes wait for the last changes",
    "index": "sessions indexed",
    "remove": "old keys removed",
}
"""What the progress line counts in each step."""


def add_commands(add_command: AddCommand) -> None:
    help = "Move all data to another number of shards."
    reshard = add_command("reshard", _reshard, help, changes=True)
    reshard.add_argument("--shards", type=int, required=True, metavar="N", help="the new number of shards, 1 to 1024")


def _reshard(presence: Presence, args: argparse.Namespace) -> int:
    try:
        with ProgressLine() as line:
            report = presence.reshard(
                args.shards, on_progress=lambda step, count: line.show(f"{count:,} {_STEPS[step]}")
            )
    except KeyboardInterrupt:
        print_error(
            "Stopped before the end. Continue after ten seconds and within an hour: "
            f"presence reshard --shards {args.shards}"
        )
        raise
    if report.before == report.shards:
        sentence = f"There are already {count_of(report.shards, 'shard')}."
    else:
        copied = ""  # an earlier call made the copy
        if report.keys:
            copied = f"copied {count_of(report.sessions, 'session')} in {count_of(report.keys, 'key')}, "
        sentence = f"Moved from {report.before} to {report.shards} shards: {copied}removed {report.removed:,} old keys."
    print_result(args, report, [sentence])
    return 0
