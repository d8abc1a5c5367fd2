"""The npm packages of the Express site, installed once into ``.peers/``, which git ignores."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent / "node"
PLACE: Final = Path(__file__).parents[2] / ".peers" / "partners"
MODULES: Final = PLACE / "node_modules"


def are_installed() -> bool:
    """Whether the packages of the current lock file are there."""
    return _stamp().exists()


def install() -> None:
    """Install them. Raises CalledProcessError, or FileNotFoundError without npm."""
    if are_installed():
        return
    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.mkdir(parents=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(HERE / name, PLACE)
    words = ["npm", "ci", "--prefix", str(PLACE), "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]
    subprocess.run(words, cwd=PLACE, check=True)
    _stamp().touch()


def _stamp() -> Path:
    lock = (HERE / "package-lock.json").read_bytes()
    return PLACE / f"installed-{hashlib.sha256(lock).hexdigest()[:16]}"
