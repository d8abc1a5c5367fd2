"""Start, watch and end the programs of ``make run``.

Without PRESENCE_REDIS_URL, or if it is "embedded": the embedded server, the demo site, its visitors, a worker and the
dashboard. With it: the dashboard and a worker, on that Redis and with the settings in the environment.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, TextIO
from urllib.parse import unquote, urlsplit

from presence_core import InvalidArgument, Presence, PresenceError, Settings, Unavailable, Worker
from presence_core.cli.commands.programs.dashboard import ROOT, is_checkout
from presence_core.client.server_choice import EMBEDDED, VARIABLE, server_line
from presence_core.embedded import EmbeddedServer, keeper, user_state_dir
from presence_core.files.secret_files import read_secret
from presence_core.logs import start_logs
from presence_dashboard.demo.history import write_history
from presence_dashboard.demo.processes import Child, Children, Problem, WrongSetting, answers, read_port, require_free
from presence_dashboard.gate_settings import check_settings

DASHBOARD_PORT: Final = 8501
SITE_PORT: Final = 8502
START_SECONDS: Final = 90.0
LEAVE_SECONDS: Final = 1.5

# A lively list: sessions expire while you watch, and those of old runs do not pile up.
DEMO_SETTINGS: Final = {
    "PRESENCE_IDLE_TIMEOUT": "120",
    "PRESENCE_ABSOLUTE_TIMEOUT": "1800",
    "PRESENCE_MAX_SESSIONS": "3",
    "PRESENCE_KEEP_EXPIRED": "3600",
    "PRESENCE_KEEP_LOGOUT": "3600",
    "PRESENCE_KEEP_REPLACED": "86400",
    "PRESENCE_KEEP_KICKED": "604800",
    "PRESENCE_MAX_ENDED": "20000",
    "PRESENCE_MAX_EVENTS": "20000",
    "PRESENCE_MAX_AUDIT": "10000",
}


def say(*lines: str, file: TextIO = sys.stdout) -> None:
    """Print to the terminal, if it is still open."""
    try:
        print(*lines, sep="\n", file=file, flush=True)
    except OSError:
        # The terminal was closed. Buffered output must not fail again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), file.fileno())


def run(is_over: Callable[[], bool]) -> int:
    """Start everything, watch it, and return the exit status.

    A signal ends this by SystemExit. ``is_over`` returns True from then on, because an exception that is raised inside
    a destructor gets lost.
    """
    environ = dict(os.environ)
    try:
        kind = Demo if read_secret(environ, VARIABLE).strip() in ("", EMBEDDED) else Real
        # Last in, first out: children end before upkeep, upkeep before the server.
        with ExitStack() as stack:
            kind(environ, stack, is_over).run()
    except (WrongSetting, InvalidArgument) as problem:
        say(str(problem), file=sys.stderr)
        return 2
    except (Problem, PresenceError) as problem:
        say(str(problem), file=sys.stderr)
    except OSError as error:
        say(f"The demo cannot continue: {error}.", file=sys.stderr)
    except SystemExit:
        say("All ended.")
        raise
    say("All ended.")
    return 1


def _data_dir(environ: dict[str, str]) -> Path:
    named = environ.get("PRESENCE_DATA_DIR", "").strip()
    if named:
        return Path(named).expanduser().absolute()
    return ROOT / ".presence" if is_checkout() else Path(user_state_dir()) / "presence-demo"


class Real:
    """The dashboard and a worker, on an existing Redis."""

    def __init__(self, environ: dict[str, str], stack: ExitStack, is_over: Callable[[], bool]) -> None:
        self.environ = environ
        self.data = _data_dir(environ)
        self.stack = stack
        self.is_over = is_over
        self.children = Children()
        self.has_worker = False
        self.host = _dashboard_host(environ)
        self.port = read_port(environ, "PRESENCE_DASHBOARD_PORT", DASHBOARD_PORT)
        self.dashboard = f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    def run(self) -> None:
        self.require_settings()
        self.make_data_dir()
        self.start_worker()
        say("Starting the dashboard …")
        self.stack.enter_context(self.children)
        self.wait_for_dashboard(self.start_dashboard())
        say("", f"  Dashboard  {self.dashboard}", "", "  Ctrl-C ends it. Redis and its data stay as they are.", "")
        self.watch()

    def require_settings(self) -> None:
        """Raise WrongSetting or InvalidArgument before anything is started."""
        check_settings(self.environ)
        Settings.from_env(self.environ)
        require_free(self.host, self.port, "dashboard", "PRESENCE_DASHBOARD_PORT")

    def make_data_dir(self) -> None:
        try:
            self.data.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise WrongSetting(f"Cannot write to {self.data}: {error.strerror}. Set PRESENCE_DATA_DIR.") from None

    def start_worker(self) -> None:
        start_logs(self.environ, logging.FileHandler(self.data / "upkeep.log", mode="w"))
        try:
            self.try_worker()
            self.presence.counts()
        except Unavailable as error:
            say(f"Redis does not answer: {error} The dashboard starts anyway, and works once Redis answers.")

    def try_worker(self) -> None:
        # This raises if a cluster is away. In all other cases the worker waits for Redis.
        self.presence = self.stack.enter_context(Presence.from_env(self.environ))
        redis_client, settings = self.presence.internal.redis_client, self.presence.settings
        say(server_line(self.environ, redis_client, settings), file=sys.stderr)
        self.stack.enter_context(Worker(self.presence))
        self.has_worker = True

    def start(self, name: str, *module: str) -> Child:
        child = Child(name, module, log=self.data / f"{name.split()[-1]}.log", environ=self.environ)
        return self.children.add(child)

    def start_dashboard(self) -> Child:
        return self.start("dashboard", "presence_dashboard", f"--server.port={self.port}")

    def wait_for_dashboard(self, child: Child) -> None:
        self.wait_for(child, self.host, self.port)

    def wait_for(self, child: Child, host: str, port: int) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not answers(host, port):
            self.check()
            if time.monotonic() > deadline:
                raise Problem(f"The {child.name} did not answer within {START_SECONDS:.0f} s. Its log is {child.log}.")
            time.sleep(0.1)
        # Another program may have taken the port and answered; then our child has ended.
        self.check()

    def watch(self) -> None:
        """Wait for a signal, or the end of a child."""
        while True:
            time.sleep(0.5)
            self.check()
            self.tend()

    def check(self) -> None:
        """Raise Problem if a child has ended."""
        if self.is_over():
            raise SystemExit(0)
        self.children.check()

    def tend(self) -> None:
        """Start the worker if it could not start before."""
        if not self.has_worker:
            with suppress(Unavailable):
                self.try_worker()


class Demo(Real):
    """Everything, on the embedded server and with invented users."""

    def __init__(self, environ: dict[str, str], stack: ExitStack, is_over: Callable[[], bool]) -> None:
        super().__init__(DEMO_SETTINGS | environ, stack, is_over)
        self.site_port = read_port(environ, "PRESENCE_DEMO_SITE_PORT", SITE_PORT)
        self.visitors = _visitor_count(environ)
        self.site = f"http://127.0.0.1:{self.site_port}"
        self.jar = self.data / "visitors.json"

    def run(self) -> None:
        self.require_settings()
        self.make_data_dir()
        say("Starting server, demo site, visitors and dashboard …")
        server = EmbeddedServer.start(self.data)
        self.stack.callback(_wait_until_gone, server.url)
        self.server_use = self.stack.enter_context(ExitStack())
        self.server_use.enter_context(server)
        self.require_no_other()
        self.environ |= {
            "PRESENCE_REDIS_URL": server.url,
            "PRESENCE_DATA_DIR": str(self.data),
            "PRESENCE_DEMO": "1",
            "PRESENCE_DEMO_SITE": self.site,
            "PRESENCE_DEMO_DASHBOARD": self.dashboard,
        }
        self.write_history(server.url)
        self.start_worker()
        self.stack.enter_context(self.children)
        site = self.start("demo site", "presence_dashboard.demo.site", f"--port={self.site_port}")
        dashboard = self.start_dashboard()
        self.wait_for(site, "127.0.0.1", self.site_port)
        if self.visitors:
            options = (f"--site={self.site}", f"--count={self.visitors}", f"--jar={self.jar}")
            self.start("visitors", "presence_dashboard.demo.visitors", *options)
        self.wait_for_dashboard(dashboard)
        say(
            "",
            f"  Dashboard  {self.dashboard}   who is online: open it and kick a visitor",
            f"  Demo site  {self.site}   sign in here, find yourself in the dashboard, kick yourself",
            "",
            f"  {self.visitors} simulated visitors come and go. Ctrl-C ends everything. Data and logs are in",
            f"  {self.data}",
            "",
        )
        self.watch()

    def require_no_other(self) -> None:
        """Raise WrongSetting while another demo has this directory: both would write its history."""
        lock = keeper.open_lock(str(self.data), "demo.lock")
        self.stack.callback(os.close, lock)
        if not keeper.try_lock(lock):
            raise WrongSetting(
                f"Another demo is running with its data in {self.data}: end it, or set PRESENCE_DATA_DIR to another "
                "directory."
            )

    def write_history(self, url: str) -> None:
        """Give a new demo two weeks of history. Without visitors it stays empty."""
        if self.visitors:
            write_history(url, Settings.from_env(self.environ), time.time(), self.visitors, self.jar)

    def require_settings(self) -> None:
        super().require_settings()
        require_free("127.0.0.1", self.site_port, "demo site", "PRESENCE_DEMO_SITE_PORT")
        if self.port == self.site_port:
            raise WrongSetting(f"Port {self.port} is set for both dashboard and demo site: change one of them.")

    def tend(self) -> None:
        """Restart the server if it was killed, which is a good way to see an outage."""
        if not _accepts(self.environ["PRESENCE_REDIS_URL"]):
            server = EmbeddedServer.start(self.data)
            self.server_use.close()
            self.server_use.enter_context(server)
            say("  The embedded server had ended, and was started again.")


def _visitor_count(environ: dict[str, str]) -> int:
    raw = environ.get("PRESENCE_DEMO_VISITORS", "").strip() or "300"
    if not re.fullmatch("[0-9]{1,4}", raw) or int(raw) > 1000:
        raise WrongSetting(f"PRESENCE_DEMO_VISITORS is {raw!r}: it must be a number from 0 to 1000.")
    return int(raw)


def _dashboard_host(environ: dict[str, str]) -> str:
    """The host for the dashboard's URL: loopback, as in .streamlit/config.toml, unless this variable is set."""
    address = environ.get("STREAMLIT_SERVER_ADDRESS", "").strip()
    return "127.0.0.1" if address in ("", "0.0.0.0", "::", "localhost") else address


def _accepts(url: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        try:
            probe.connect(unquote(urlsplit(url).path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            pass  # it is busy, so it is there
    return True


def _wait_until_gone(url: str) -> None:
    """Wait for the end of the server, which stops shortly after its last user. Other programs may still use it."""
    deadline = time.monotonic() + LEAVE_SECONDS
    while _accepts(url) and time.monotonic() < deadline:
        time.sleep(0.02)
