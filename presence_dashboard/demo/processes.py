"""The demo's child processes: they end with this process, and write to log files."""

from __future__ import annotations

import contextlib
import errno
import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from presence_core.cli.commands.programs.dashboard import ROOT, is_checkout

STOP_SECONDS: Final = 2.5
"""How long children may take to end before they are killed."""

LAST_LINES: Final = 12


class Problem(Exception):
    """The demo cannot continue. The text is shown in the terminal."""


class WrongSetting(Problem):
    """A variable of the environment must be changed first. Nothing was started."""


class Child:
    """``python -m <module> <arguments>`` in its own session, so that Ctrl-C reaches only the parent."""

    def __init__(self, name: str, module: Sequence[str], *, log: Path, environ: Mapping[str, str]) -> None:
        self.name = name
        self.log = log
        # Append, so that two demos in one directory do not overwrite each other. Each run begins with an empty file.
        no_cwd = () if is_checkout() else ("-P",)  # no file of a user's directory is imported instead of a module
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        try:
            self._process = subprocess.Popen(
                [sys.executable, *no_cwd, "-m", "presence_dashboard.demo.run_with_parent", *module],
                cwd=ROOT if is_checkout() else None,
                env={**environ, "PYTHONUNBUFFERED": "1"},
                stdin=subprocess.PIPE,  # when it closes the child ends: see run_with_parent.py
                stdout=descriptor,
                stderr=descriptor,
                start_new_session=True,
            )
        finally:
            os.close(descriptor)

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def check(self) -> None:
        """Raise Problem, with the last lines of its log, if it has ended."""
        status = self._process.poll()
        if status is None:
            return
        how = f"was ended by {_signal_name(-status)}" if status < 0 else f"ended with status {status}"
        raise Problem(f"The {self.name} {how}. The last lines of {self.log}:\n{_indented(self._last_lines())}")

    def _last_lines(self) -> str:
        try:
            lines = self.log.read_text(errors="replace").rstrip().split("\n")
        except OSError as error:
            return str(error)
        return "\n".join(lines[-LAST_LINES:]) or "(the log is empty)"

    def signal_group(self, number: int) -> None:
        # Its pid is not reused until it is waited for. Its own children are in its group.
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)

    def reap(self) -> None:
        """Wait for its end, and close the pipe to it."""
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()


class Children:
    """All child processes. The end of the ``with`` ends them, usually within a second and at most in 3 s."""

    def __init__(self) -> None:
        self._all: list[Child] = []

    def add(self, child: Child) -> Child:
        self._all.append(child)
        return child

    def check(self) -> None:
        """Raise Problem if one has ended."""
        for child in self._all:
            child.check()

    def __enter__(self) -> Children:
        return self

    def __exit__(self, *_: object) -> None:
        for child in self._all:
            child.signal_group(signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS
        while not all(child.has_ended for child in self._all) and time.monotonic() < deadline:
            time.sleep(0.02)
        for child in self._all:
            child.signal_group(signal.SIGKILL)
        for child in self._all:
            child.reap()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.split("\n"))


# -- Ports and answers -------------------------------------------------------------------------------------------------


def read_port(environ: Mapping[str, str], variable: str, default: int) -> int:
    """The port in an environment variable. Raises Problem."""
    raw = environ.get(variable, "").strip()
    if not raw:
        return default
    if not re.fullmatch("[0-9]{1,5}", raw) or not 1 <= int(raw) <= 65_535:
        raise WrongSetting(f"{variable} is {raw!r}, which is not a port: it must be a number from 1 to 65535.")
    return int(raw)


def require_free(host: str, port: int, program: str, variable: str) -> None:
    """Raise Problem if the port is in use or not permitted."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        # As a server does: a port whose last server has just ended is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError as error:
            reason = "in use" if error.errno == errno.EADDRINUSE else f"not available ({error.strerror})"
            raise WrongSetting(
                f"Port {port}, where the {program} would listen, is {reason}: "
                f"stop the program that uses it, or set {variable} to another port."
            ) from None


def answers(host: str, port: int) -> bool:
    """Whether a web server answers there, with a status below 500."""
    connection = http.client.HTTPConnection(host, port, timeout=5)
    try:
        connection.request("GET", "/")
        return connection.getresponse().status < 500
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
