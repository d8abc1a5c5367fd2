"""On Windows, each program ends with one sentence."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SENTENCE = "Presence runs on Linux and macOS. On Windows, run it in WSL.\n"

# What differs on Windows as far as these programs notice it before they end.
WINDOWS = """
import os, runpy, sys
{imports}
sys.platform = "win32"
for missing in ("fcntl", "pwd"):
    sys.modules[missing] = None
del os.getuid
"""


COMMANDS = (["list"], ["kick", "u1", "--reason", "stolen"], ["serve"], ["worker"], ["dashboard"])
"""They run in one program, because to import the command takes longer than all of them."""


@pytest.mark.parametrize(
    ("imports", "program", "sentences"),
    [
        (
            "import presence_core.cli",
            f"sys.exit(1 if {{presence_core.cli.main(words) for words in {COMMANDS}}} <= {{1, 2}} else 0)",
            len(COMMANDS),
        ),
        ("import presence_dashboard.__main__ as program", "program.main()", 1),
        ("from presence_dashboard import gate", "gate.middleware_and_routes()", 1),
    ],
    ids=["command", "dashboard", "gate"],
)
def test_each_program_says_on_which_systems_it_runs(imports: str, program: str, sentences: int) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", WINDOWS.format(imports=imports) + program],
        cwd=ROOT,
        env=os.environ | {"PRESENCE_REDIS_URL": "redis://127.0.0.1:1"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ended.returncode in (1, 2), ended.stdout, ended.stderr) == (True, "", SENTENCE * sentences)
