"""The dashboard: ``presence dashboard``."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import socket
import sys
import tomllib
from pathlib import Path
from typing import Final, NoReturn

from presence_core import validation as check
from presence_core.cli.arguments import LOG_HELP, AddCommand
from presence_core.cli.output import print_error
from presence_core.client import Presence
from presence_core.client.server_choice import EMBEDDED, choose_server
from presence_core.errors import Unavailable
from presence_core.settings import Settings

_INSTALL: Final = (
    "The dashboard is not installed: install the extra dashboard (in a checkout: pip install '.[dashboard]')"
)

ROOT: Final = Path(__file__).parents[4]
"""The folder of both packages: the checkout, or where the wheel is installed."""


def add_commands(add_command: AddCommand) -> None:
    parser = add_command("dashboard", start, "Run the dashboard, until Ctrl-C.", json=False, connects=False)
    parser.epilog = LOG_HELP
    parser.add_argument("--port", type=int, help="0 picks a free port (default 8501)")


def find_app() -> Path | None:
    """The dashboard's app, with ``.streamlit/config.toml`` next to it; None if the dashboard is not installed."""
    installed = importlib.util.find_spec("streamlit") and importlib.util.find_spec("pandas")
    apps = (ROOT / "presence_dashboard" / "dashboard.py", ROOT / "dashboard.py")  # of a wheel, and of a checkout
    return next((path for path in apps if installed and path.is_file()), None)


def is_checkout() -> bool:
    """Whether this runs from a checkout, not from an installed wheel."""
    return (ROOT / "dashboard.py").is_file()


def start(args: argparse.Namespace) -> int:
    """Replace this process by the dashboard's, so that signals and the exit code are those of the dashboard."""
    app = find_app()
    if app is None:
        print_error(_INSTALL)
        return 2
    address, port = _address(app, args)
    try:  # Streamlit would print a traceback
        _check_can_listen(address, port)
    except (OSError, UnicodeError) as error:
        print_error(f"Cannot listen on {address}:{port}: {getattr(error, 'strerror', None) or error}.")
        return 2
    with contextlib.suppress(Unavailable):  # the dashboard starts without Redis; its pages say so
        url = choose_server(args.environ, Settings.from_env(args.environ))
        if url != EMBEDDED:
            Presence.from_url(url).close()  # raises InvalidArgument if the URL is wrong
    options = [] if args.port is None else [f"--server.port={port}"]
    replace_by_module(args, "presence_dashboard", *options)


def replace_by_module(args: argparse.Namespace, *module: str) -> NoReturn:
    """Replace this process by ``python -m`` with this module and its arguments."""
    # A checkout has its packages on no path. -P: no file of the current directory is imported instead of a module.
    path = {"PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))}
    environ = args.environ | (path if is_checkout() else {})
    os.execve(sys.executable, [sys.executable, "-P", "-m", *module], environ)


def _address(app: Path, args: argparse.Namespace) -> tuple[str, int]:
    """Address and port, as Streamlit reads them: from options, the environment, and the configuration of the app."""
    configured = tomllib.loads((app.parent / ".streamlit" / "config.toml").read_text("utf-8"))["server"]
    address = os.environ.get("STREAMLIT_SERVER_ADDRESS") or configured["address"]
    if args.port is not None:
        return address, check.whole("port", args.port, 0, 65_535)
    port = os.environ.get("STREAMLIT_SERVER_PORT") or str(configured["port"])
    number = int(port) if port.isascii() and port.isdecimal() else -1
    return address, check.whole("STREAMLIT_SERVER_PORT", number, 0, 65_535)


def _check_can_listen(address: str, port: int) -> None:
    """Raise OSError if Streamlit could not listen there."""
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((address, port))
        probe.listen()
