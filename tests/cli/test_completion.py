"""Shell completion, in real shells on a terminal; and ``--version``."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import presence_core
from presence_core import cli
from tests.cli.conftest import ROOT
from tests.support.servers import missing

START = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
    "fish": ["fish", "--no-config", "-i"],
}

LOAD = {
    "bash": 'eval "$(presence completion bash)"',
    "zsh": 'autoload -U compinit; compinit -u -D; eval "$(presence completion zsh)"',
    "fish": "presence completion fish | source",
}


ON_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execvp(sys.argv[1], sys.argv[1:])
"""
"""A program that makes the terminal that of its session, which fish needs, and becomes the shell."""

CONTROL = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[()=>].?)|[\r\x00]")


class Terminal:
    """A shell on a terminal. ``wait`` waits for what it prints, without colours and cursor movements."""

    def __init__(self, command: list[str], environ: dict[str, str]) -> None:
        self._screen, side = pty.openpty()
        self._process = subprocess.Popen(
            [sys.executable, "-c", ON_TERMINAL, *command],
            env=environ,
            stdin=side,
            stdout=side,
            stderr=side,
            start_new_session=True,
            close_fds=True,
        )
        os.close(side)
        self.text = ""

    def type(self, keys: str) -> None:
        self.text = ""
        os.write(self._screen, keys.encode())

    def wait(self, pattern: str) -> None:
        deadline = time.monotonic() + 60
        while not re.search(pattern, self.text):
            assert time.monotonic() < deadline, self.text
            if select.select([self._screen], [], [], 1)[0]:
                seen = os.read(self._screen, 65_536).decode(errors="replace")
                if "\x1b[c" in seen:  # fish asks what kind of terminal this is
                    os.write(self._screen, b"\x1b[?1;2c")
                self.text += re.sub(
                    r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[()=>].?)|[\r\x00]", "", seen
                )

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._screen)


@pytest.fixture(params=["bash", "zsh", "fish"])
def terminal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Terminal]:
    """A shell that has loaded the completion of a ``presence`` on its PATH."""
    shell = request.param
    if shutil.which(shell) is None:
        missing(shell)
    program = tmp_path / "bin" / "presence"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m presence_core "$@"\n')
    program.chmod(0o755)
    environ = {"PATH": f"{program.parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "HOME": str(tmp_path),
               "TERM": "xterm", "LANG": "C.UTF-8"}  # fmt: skip
    made = Terminal(START[shell], environ)
    try:
        made.type(f"{LOAD[shell]}; echo rea''dy\n")
        made.wait("ready")
        yield made
    finally:
        made.close()


def test_a_shell_completes_commands_and_options(terminal: Terminal) -> None:
    terminal.type("presence revo\t")
    terminal.wait("presence revoke-before ")
    terminal.type("--bef\t")
    terminal.wait("--before ")


def test_a_shell_that_is_not_supported_is_refused_and_completion_needs_no_server(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("PRESENCE_REDIS_URL", "REDIS_URL"):
        monkeypatch.delenv(name, raising=False)
    assert cli.main(["completion", "tcsh"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "invalid choice: 'tcsh'" in err
    assert cli.main(["completion", "fish"]) == 0
    assert "presence" in capsys.readouterr().out
    with pytest.raises(SystemExit, match=r"^0$"):
        cli.main(["--version"])
    assert capsys.readouterr() == (f"presence {presence_core.__version__}\n", "")
