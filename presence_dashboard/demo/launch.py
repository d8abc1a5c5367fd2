"""Start and end everything of ``make run``, in one process.

Without PRESENCE_REDIS_URL, or if it is "embedded": the embedded server, the demo site with its visitors, a worker and
the dashboard. With it: the dashboard and a worker, on that Redis and with the settings in the environment.
"""

from __future__ import annotations

import errno
import http.client
import logging
import os
import re
import socket
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final, TextIO

from presence_core import InvalidArgument, Presence, PresenceError, Settings, Unavailable, Worker
from presence_core.cli.commands.programs.dashboard import ROOT, is_checkout
from presence_core.client.server_choice import EMBEDDED, VARIABLE, server_line
from presence_core.embedded import EmbeddedServer, keeper, user_state_dir
from presence_core.files.secret_files import read_secret
from presence_core.logs import start_logs
from presence_core.mirror.digests import own_key
from presence_core.mirror.loop import NEEDED_FLAGS, Mirror
from presence_core.mirror.stores import BY_NAME
from presence_core.transport.site_store import SiteStore
from presence_dashboard import __main__ as dashboard
from presence_dashboard.demo import own_store, site
from presence_dashboard.demo.history import write_history
from presence_dashboard.gate_settings import check_settings

# A lively list: sessions expire while you watch, and those of old runs do not pile up.
DEMO_SETTINGS: Final = {
    "PRESENCE_IDLE_TIMEOUT": "120",
    "PRESENCE_ABSOLUTE_TIMEOUT": "1800",
    "PRESENCE_MAX_SESSIONS": "3",
    "PRESENCE_KEEP_EXPIRED": "3600",
    "PRESENCE_KEEP_LOGOUT": "3600",
    "PRESENCE_KEEP_REPLACED": "86400",
    "PRESENCE_KEEP_KICKED": "604800",
    "PRESENCE_KEEP_SIGN_INS": "30",
    "PRESENCE_MAX_ENDED": "20000",
    "PRESENCE_MAX_EVENTS": "20000",
    "PRESENCE_MAX_AUDIT": "10000",
}


def say(*lines: str, file: TextIO = sys.stdout) -> None:
    try:
        print(*lines, sep="\n", file=file, flush=True)
    except OSError:
        # The terminal was closed. Buffered output must not fail again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), file.fileno())


def run() -> int:
    """Start everything, serve until a signal, and return the exit status."""
    try:
        # Last in, first out: the dashboard ends before the worker, the worker before the server.
        with ExitStack() as stack:
            _Launch(dict(os.environ), stack, is_mirror="--mirror" in sys.argv[1:]).run()
    except (WrongSetting, InvalidArgument) as problem:
        say(str(problem), file=sys.stderr)
        return 2
    except PresenceError as problem:
        say(str(problem), file=sys.stderr)
    except OSError as error:
        say(f"The demo cannot continue: {error}.", file=sys.stderr)
    except SystemExit:
        say("All ended.")
        raise
    say("All ended.")
    return 1


class WrongSetting(Exception):
    """A variable of the environment must be changed first. Nothing was started. The text is shown in the terminal."""


class _Launch:
    """One start, with its settings."""

    def __init__(self, environ: dict[str, str], stack: ExitStack, *, is_mirror: bool = False) -> None:
        self.is_mirror = is_mirror  #: the demo site keeps its sessions in a store of its own
        if is_mirror:
            environ = {"PRESENCE_NAMESPACE": "mirrored"} | environ
        self.is_demo = read_secret(environ, VARIABLE).strip() in ("", EMBEDDED)  #: else on an existing Redis
        self.environ = DEMO_SETTINGS | environ if self.is_demo else environ
        self.data = _data_dir(environ)
        self.stack = stack
        # The host of the dashboard's URL: loopback, as in .streamlit/config.toml, unless this variable is set.
        address = environ.get("STREAMLIT_SERVER_ADDRESS", "").strip()
        self.host = site.HOST if address in ("", "0.0.0.0", "::", "localhost") else address
        self.port = read_number(environ, "PRESENCE_DASHBOARD_PORT", 8501, 1, 65_535)
        self.dashboard = f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"
        self.site_port = read_number(environ, "PRESENCE_DEMO_SITE_PORT", site.PORT, 1, 65_535)
        self.site = f"http://{site.HOST}:{self.site_port}"
        self.visitors = read_number(environ, "PRESENCE_DEMO_VISITORS", 300, 0, 1000)

    def run(self) -> None:
        self.prepare()
        if self.is_demo:
            say("Starting server, demo site, visitors and dashboard …")
            self.start_server()
        self.start_worker()
        if self.is_demo and self.is_mirror:
            self.start_mirror()
        elif self.is_demo:
            self.stack.enter_context(site.running(self.environ, self.site_port, self.visitors))
        else:
            say("Starting the dashboard …")
        threading.Thread(target=self.say_addresses, daemon=True).start()
        os.environ.update(self.environ)
        sys.argv[1:] = [f"--server.port={self.port}", "--logger.hideWelcomeMessage=true"]
        dashboard.main()  # until a signal

    def say_addresses(self) -> None:
        """Print them as soon as the dashboard answers."""
        while not answers(self.host, self.port):
            time.sleep(0.1)
        say("", f"  Dashboard  {self.dashboard}   who is online: open it and kick a visitor")
        if self.is_demo:
            say(
                f"  Demo site  {self.site}   sign in here, find yourself in the dashboard, kick yourself",
                "",
                f"  {self.visitors} simulated visitors come and go. Ctrl-C ends everything. Data and log are in",
                f"  {self.data}",
                "",
            )
        else:
            say("", "  Ctrl-C ends it. Redis and its data stay as they are.", "")

    def prepare(self) -> None:
        """Raise WrongSetting or InvalidArgument before anything is started."""
        if self.is_mirror and not self.is_demo:
            raise WrongSetting(f"{VARIABLE} is set: the demo of the mirror needs a server of its own. Unset it.")
        check_settings(self.environ)
        Settings.from_env(self.environ)
        require_free(self.host, self.port, "dashboard", "PRESENCE_DASHBOARD_PORT")
        if self.is_demo:
            require_free(site.HOST, self.site_port, "demo site", "PRESENCE_DEMO_SITE_PORT")
            if self.port == self.site_port:
                raise WrongSetting(f"Port {self.port} is set for both dashboard and demo site: change one of them.")
        try:
            self.data.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise WrongSetting(f"Cannot write to {self.data}: {error.strerror}. Set PRESENCE_DATA_DIR.") from None

    def start_server(self) -> None:
        """The embedded server; a new one with two weeks of history."""
        server = self.stack.enter_context(EmbeddedServer.start(self.data))
        lock = keeper.open_lock(str(self.data), "demo.lock")
        self.stack.callback(os.close, lock)
        if not keeper.try_lock(lock):  # both would write its history
            raise WrongSetting(
                f"Another demo is running with its data in {self.data}: end it, or set PRESENCE_DATA_DIR to another "
                "directory."
            )
        self.environ |= {
            "PRESENCE_REDIS_URL": server.url,
            "PRESENCE_DATA_DIR": str(self.data),
            "PRESENCE_DEMO": "1",
            "PRESENCE_DEMO_SITE": self.site,
            "PRESENCE_DEMO_DASHBOARD": self.dashboard,
        }
        if self.visitors and not self.is_mirror:
            write_history(server.url, Settings.from_env(self.environ), time.time(), self.visitors)

    def start_mirror(self) -> None:
        """The site with its own store, on the same server, and the mirror over it."""
        url = self.environ["PRESENCE_REDIS_URL"]
        presence = self.stack.enter_context(Presence.from_env(self.environ))
        store = SiteStore(url, presence.settings.timeout)
        self.stack.callback(store.close)
        store.turn_on_notifications(NEEDED_FLAGS)
        mirror = Mirror(presence, store, BY_NAME["express"], own_key(self.data / "mirror.key"))
        mirror.start()
        thread = threading.Thread(target=mirror.run, name="demo-mirror", daemon=True)
        thread.start()
        self.stack.callback(thread.join, site.STOP_SECONDS)
        self.stack.callback(mirror.stop)
        self.stack.enter_context(own_store.running(url, self.site_port, self.visitors, self.dashboard))

    def start_worker(self) -> None:
        start_logs(self.environ, logging.FileHandler(self.data / "upkeep.log", mode="w"))
        presence = self.stack.enter_context(Presence.from_env(self.environ))
        say(server_line(self.environ, presence.internal.redis_client, presence.settings), file=sys.stderr)
        self.stack.enter_context(Worker(presence))
        try:
            presence.counts()
        except Unavailable as error:
            say(f"Redis does not answer: {error} The dashboard starts anyway, and works once Redis answers.")


def _data_dir(environ: dict[str, str]) -> Path:
    named = environ.get("PRESENCE_DATA_DIR", "").strip()
    if named:
        return Path(named).expanduser().absolute()
    return ROOT / ".presence" if is_checkout() else Path(user_state_dir()) / "presence-demo"


def answers(host: str, port: int) -> bool:
    """Whether a web server answers there, with a status below 500."""
    connection = http.client.HTTPConnection(host, port, timeout=5)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status < 500
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def read_number(environ: Mapping[str, str], variable: str, default: int, low: int, high: int) -> int:
    """The number in an environment variable. Raises WrongSetting."""
    raw = environ.get(variable, "").strip() or str(default)
    if not re.fullmatch("[0-9]{1,5}", raw) or not low <= int(raw) <= high:
        raise WrongSetting(f"{variable} is {raw!r}: it must be a number from {low} to {high}.")
    return int(raw)


def require_free(host: str, port: int, program: str, variable: str) -> None:
    """Raise WrongSetting if the port is in use or not permitted."""
    try:
        socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET).close()
    except OSError as error:
        reason = "in use" if error.errno == errno.EADDRINUSE else f"not available ({error.strerror})"
        raise WrongSetting(
            f"Port {port}, where the {program} would listen, is {reason}: "
            f"stop the program that uses it, or set {variable} to another port."
        ) from None
