"""The peers, and the installation of each from its lock file, once, into ``.peers/``, which git ignores."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parent.parent
PLACE: Final = ROOT / ".peers"


@dataclass(frozen=True, slots=True)
class Kind:
    """One session store of the comparison."""

    key: str
    title: str
    needs: str  #: "node", "python", or "" if the checkout already contains it
    words: tuple[str, ...]  #: command of its program; the first argument of the program is the server's address


KINDS: Final = (
    Kind("ours", "presence-core", "", ("ours",)),
    Kind("redis-sessions", "redis-sessions", "node", ("redis_sessions",)),
    Kind("connect-redis", "connect-redis", "node", ("connect_redis",)),
    Kind("django-redis", "django-redis", "python", ("django_cache",)),
    Kind("flask-session", "Flask-Session", "python", ("flask_sessions",)),
    Kind("keys-get", "KEYS + GET each", "", ("patterns", "keys")),
    Kind("scan-get", "SCAN + GET", "", ("patterns", "scan")),
)


class Missing(Exception):
    """A peer cannot run here; the text says why and what to do."""


def command(kind: Kind, url: str) -> list[str]:
    """The command of this peer's program, after the installation."""
    name, *rest = kind.words
    if kind.needs == "node":
        return ["node", str(HERE / "node" / f"{name}.mjs"), url, *rest]
    python = python_of("python") if kind.needs == "python" else sys.executable
    return [python, "-m", f"benchmarks.peers.python.{name}", url, *rest]


def installed(needs: str) -> bool:
    """Whether the packages of the current lock file are installed."""
    return not needs or _stamp(needs).exists()


def install(needs: str) -> None:
    """Install the peer. Raises Missing."""
    if installed(needs):
        return
    place = PLACE / needs
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    print(f"  Installing the {needs} peers into .peers/{needs} (only once) …", file=sys.stderr, flush=True)
    if needs == "node":
        _install_node(place)
    else:
        _run(needs, [sys.executable, "-m", "venv", str(place)])
        pip = [python_of(needs), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run(needs, [*pip, "--require-hashes", "--only-binary", ":all:", "-r", str(_lock(needs))])
    _stamp(needs).touch()


def python_of(needs: str) -> str:
    """The interpreter of an installed Python environment."""
    return str(PLACE / needs / "bin" / "python")


def _install_node(place: Path) -> None:
    for tool in ("node", "npm"):
        if not shutil.which(tool):
            raise Missing(f"'{tool}' was not found: Node 18.19 or newer runs redis-sessions and connect-redis.")
    for name in ("package.json", "package-lock.json"):
        shutil.copy(HERE / "node" / name, place)
    _run("node", ["npm", "ci", "--prefix", str(place), "--ignore-scripts", "--no-audit", "--no-fund"])


def _run(needs: str, words: Sequence[str]) -> None:
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, errors="replace")
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip() or "no reason given").splitlines()[-1]
        raise Missing(f"The {needs} peers could not be installed: {last[:200]}")


def _lock(needs: str) -> Path:
    return HERE / needs / ("package-lock.json" if needs == "node" else "requirements.lock")


def _stamp(needs: str) -> Path:
    return PLACE / needs / f"installed-{hashlib.sha256(_lock(needs).read_bytes()).hexdigest()[:16]}"
