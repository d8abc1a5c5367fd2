"""The dashboard on the command line: ``presence dashboard``."""

from __future__ import annotations

import argparse
import importlib.util
import os
import socket
import sys
import tomllib
from pathlib import Path
from typing import Final

from presence_core import settings as check
from presence_core.cli.asked import Maker
from presence_core.cli.shown import complain
from presence_core.client import Presence

_NEEDS: Final = "This needs more than the library alone: pip install 'presence-core[dashboard]'"

_ROOT: Final = Path(__file__).parents[2]
_APPS: Final = (_ROOT / "presence_dashboard" / "dashboard.py", _ROOT / "dashboard.py")
"""The app in an installed wheel, and in a checkout. ``.streamlit/config.toml`` is next to it."""


def add_commands(command: Maker) -> None:
    """Make this command known to the parser."""
    parser = command("dashboard", start, "Serve the dashboard, until Ctrl-C or SIGTERM.")
    parser.add_argument("--port", type=int, help="0: any that is free (8501)")


def start(_: Presence | None, args: argparse.Namespace) -> int:
    """Replace this process by Streamlit's, so that signals and the exit code are the dashboard's own."""
    app = next((path for path in _APPS if path.is_file()), None)
    if app is None or not (importlib.util.find_spec("streamlit") and importlib.util.find_spec("pandas")):
        complain(_NEEDS)
        return 2
    address, port = _place(app, args)
    try:  # Streamlit answers some of these with a traceback
        _listen(address, port)
    except (OSError, UnicodeError) as error:
        complain(f"{address}:{port} cannot be listened to ({getattr(error, 'strerror', None) or error}).")
        return 2
    options = [] if args.port is None else [f"--server.port={port}"]
    # -P: no file of the current directory is imported in place of a module.
    os.execv(sys.executable, [sys.executable, "-P", "-m", "streamlit", "run", str(app), *options])


def _place(app: Path, args: argparse.Namespace) -> tuple[str, int]:
    """Address and port: as Streamlit takes them from options, environment and the configuration next to the app."""
    configured = tomllib.loads((app.parent / ".streamlit" / "config.toml").read_text("utf-8"))["server"]
    address = os.environ.get("STREAMLIT_SERVER_ADDRESS") or configured["address"]
    if args.port is not None:
        return address, check.whole("port", args.port, 0, 65_535)
    port = os.environ.get("STREAMLIT_SERVER_PORT") or str(configured["port"])
    number = int(port) if port.isascii() and port.isdecimal() else -1
    return address, check.whole("STREAMLIT_SERVER_PORT", number, 0, 65_535)


def _listen(address: str, port: int) -> None:
    """Try it, as Streamlit will do. Raises OSError."""
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        tried.bind((address, port))
        tried.listen()
