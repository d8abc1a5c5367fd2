"""The demo's child processes: started tied to us, their chatter kept in a file, ended together."""

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

STOP_SECONDS: Final = 2.5
"""How long children may take to end before they are killed."""

LAST_LINES: Final = 12


class Problem(Exception):
    """The demo cannot go on. The text says why, for the person at the terminal."""


class Child:
    """``python -m <module> <arguments>`` in a session of its own, so that Ctrl-C is for the parent alone."""

    def __init__(self, name: str, module: Sequence[str], *, cwd: Path, log: Path, environ: Mapping[str, str]) -> None:
        self.name = name
        self.log = log
        # Appending, so that two demos with one directory do not write over each other; begun anew with every run.
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "demo.tied", *module],
                cwd=cwd,
                env={**environ, "PYTHONUNBUFFERED": "1"},
                stdin=subprocess.PIPE,  # its lifeline: see tied.py
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
        """Raise Problem, with its last words, if it has ended."""
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
        return "\n".join(lines[-LAST_LINES:]) or "(it said nothing)"

    def signal_group(self, number: int) -> None:
        # Until it is waited for, its number is its own; it may have children, and they are in its group.
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)

    def reap(self) -> None:
        """Wait for it, and give its lifeline back."""
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()


class Children:
    """All of them. The end of a ``with`` ends every one, in some tenths of a second and in 3 s at the latest."""

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
    """The port that a variable names. Raises Problem."""
    raw = environ.get(variable, "").strip()
    if not raw:
        return default
    if not re.fullmatch("[0-9]{1,5}", raw) or not 1 <= int(raw) <= 65_535:
        raise Problem(f"{variable} is {raw!r}, which is not a port: it must be a number from 1 to 65535.")
    return int(raw)


def require_free(host: str, port: int, what: str, variable: str) -> None:
    """Raise Problem if something listens there already, or nothing may."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        # As a server would: a port whose last server has just ended is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError as error:
            reason = "in use" if error.errno == errno.EADDRINUSE else f"not to be had ({error.strerror})"
            raise Problem(
                f"Port {port}, where the {what} would listen, is {reason}: "
                f"end what uses it, or set {variable} to another port."
            ) from None


def answers(host: str, port: int) -> bool:
    """Whether a web server answers there, and not with an error of its own."""
    connection = http.client.HTTPConnection(host, port, timeout=5)
    try:
        connection.request("GET", "/")
        return connection.getresponse().status < 500
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
