"""``python -m benchmarks instructions [--server valkey|redis|both] [--only name,…]``

Instructions that the server executes for a call, counted by callgrind (valgrind). Unlike times they are the same on a
busy machine, so the states before and after a change can be compared: run it in a worktree of each.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import redis

from benchmarks.data import Row, imported_logins, logins
from benchmarks.methods.ending import BY, MESSAGE, REASON
from benchmarks.stage import SETTINGS, binaries
from presence_core import LoginRefused, Presence, SessionFilter

AGENT: Final = "Mozilla/5.0 (X11; Linux x86_64; rv:127.0) Gecko/20100101 Firefox/127.0"
SESSIONS: Final = 2_000
CALLS: Final = 100
SWEPT: Final = 500
KICKED: Final = 200

_ADDRESSES: Final = ("192.0.2.7", "198.51.100.7")


def _place_of(address: bytes) -> bytes:
    """Two networks of a country."""
    return b"FR\n64500\nExample Telecom\n46,5\nLyon" if address[0] == 192 else b"FR\n64501\nExample Cable\n49,2\nParis"


class Calls:
    """The calls to count: each has a function that makes its argument, and how many units it handles."""

    def __init__(self, presence: Presence) -> None:
        self.presence = presence
        made = presence.login_many(list(imported_logins(SESSIONS, time.time(), 3600.0)), imported=True)
        self._refs = [login.session.ref for login in made if not isinstance(login, Exception)]
        self._user = 50_000_000
        self._random = random.Random(1)

    def _rows(self, count: int) -> list[Row]:
        self._user += count
        return list(logins(count, first_user=self._user))

    def _user_of_three(self) -> str:
        rows = self._rows(3)
        uid = str(rows[0]["uid"])
        self.presence.login_many([row | {"uid": uid} for row in rows])
        return uid

    def each(self) -> dict[str, tuple[Callable[[], Any], Callable[[Any], object], int]]:
        p, nothing = self.presence, lambda: None
        return {
            "kick_three": (
                self._user_of_three,
                lambda uid: p.kick(uid, by=BY, reason=REASON, message=MESSAGE),
                1,
            ),
            "kick_where": (self._named, self._kick_where, KICKED),
            "sweep": (self._past_deadline, lambda _: self._sweep(), SWEPT),
            "login": (lambda: self._rows(1)[0], lambda row: p.login(**row), 1),
            "login_many": (lambda: self._rows(50), p.login_many, 50),
            "counts": (nothing, lambda _: p.counts(), 1),
            "heartbeats": (lambda: self._random.sample(self._refs, 1000), p.heartbeats, 1000),
            "page": (nothing, lambda _: p.list_sessions(limit=50), 1),
            "validate_place": (self._placed(1), self._validate_from, 1),
            "validate_network": (self._placed(2), self._validate_from, 1),
            "validate": (lambda: self._random.choice(self._refs).rpartition(":"), self._validate, 1),
        }

    def _named(self) -> SessionFilter:
        name = f"Bulk{self._user}"
        self.presence.login_many([row | {"name": name} for row in self._rows(KICKED)])
        return SessionFilter(name_prefix=name)

    def _kick_where(self, session_filter: SessionFilter) -> None:
        time.sleep(0.002)  # a job ends sessions that began before it
        result = self.presence.kick_where(session_filter, by=BY, reason=REASON, message=MESSAGE, expected=KICKED)
        assert result.count == KICKED

    def _past_deadline(self) -> None:
        self.presence.login_many([row | {"idle_timeout": 60} for row in self._rows(SWEPT)])

    def _sweep(self) -> None:
        context = self.presence.internal.context
        context.now = str(int((time.time() + 3600) * 1000))
        assert self.presence.sweep(limit=SWEPT).expired == SWEPT
        context.now = ""

    def _placed(self, networks: int) -> Callable[[], tuple[str, str, str]]:
        """Of sessions with a place, requests from so many networks in turn."""
        refs: list[str] = []
        turns = itertools.count()

        def request() -> tuple[str, str, str]:
            if not refs:
                self.presence.internal.context.place_of = _place_of
                rows = [row | {"ip": _ADDRESSES[0], "user_agent": AGENT} for row in self._rows(CALLS)]
                made = self.presence.login_many(rows)
                refs.extend(login.session.ref for login in made if not isinstance(login, LoginRefused))
                self.presence.internal.context.place_of = lambda _: b""
            uid, _, session_id = refs[(turn := next(turns)) % CALLS].rpartition(":")
            return uid, session_id, _ADDRESSES[(turn // CALLS + 1) % networks]

        return request

    def _validate_from(self, request: tuple[str, str, str]) -> None:
        uid, session_id, ip = request
        self.presence.internal.context.place_of = _place_of
        assert self.presence.validate_session(uid, session_id, ip=ip, user_agent=AGENT)
        self.presence.internal.context.place_of = lambda _: b""

    def _validate(self, parts: tuple[str, str, str]) -> object:
        uid, _, session_id = parts
        return self.presence.validate_session(uid, session_id)


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks instructions", description=__doc__)
    parser.add_argument("--server", default="both", choices=("valkey", "redis", "both"))
    parser.add_argument("--only", help="comma-separated calls")
    arguments = parser.parse_args(words)
    if not shutil.which("valgrind"):
        sys.exit("valgrind was not found.")
    for server, binary in binaries().items():
        if arguments.server in (server, "both"):
            with TemporaryDirectory(prefix="bench-") as directory:
                _count(server, binary, Path(directory), arguments.only)
    return 0


def _count(server: str, binary: str, directory: Path, only: str | None) -> None:
    socket = directory / "socket"
    start = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={directory}/out", binary,
             "--port", "0", "--unixsocket", str(socket), "--save", "", "--dir", str(directory)]  # fmt: skip
    with subprocess.Popen(start, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            client = redis.Redis(unix_socket_path=str(socket))
            _wait_for(client)
            with Presence.from_url(f"unix://{socket}", replace(SETTINGS, timeout=60)) as presence:
                for name, (given, run, units) in Calls(presence).each().items():
                    if not only or name in only.split(","):
                        count = _instructions(process.pid, directory, given, run, max(4, CALLS // units))
                        print(f"{server:8} {name:16} {count / units:12,.0f}", flush=True)
        finally:
            process.kill()


def _wait_for(client: Any) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            client.ping()
            return
        except redis.ConnectionError:
            time.sleep(0.1)
    sys.exit("The server did not start under valgrind.")


def _instructions(
    pid: int, directory: Path, given: Callable[[], Any], run: Callable[[Any], object], calls: int
) -> float:
    """Instructions of one call."""
    for _ in range(3):
        run(given())  # scripts, caches
    arguments = [given() for _ in range(calls)]
    _control(pid, "-z")
    _control(pid, "-i", "on")
    for argument in arguments:
        run(argument)
    _control(pid, "-i", "off")
    _control(pid, "-d")
    written = max(directory.glob("out.*"), key=os.path.getmtime).read_text()
    found = re.search(r"^totals: (\d+)", written, re.MULTILINE)
    assert found
    return int(found[1]) / calls


def _control(pid: int, *words: str) -> None:
    subprocess.run(["callgrind_control", *words, str(pid)], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)  # fmt: skip
