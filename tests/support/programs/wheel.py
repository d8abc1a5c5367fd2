"""The wheel, built from the checkout and installed into an environment that has nothing but what the wheel requires."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, PathDistribution, distribution
from importlib.util import find_spec
from pathlib import Path

from packaging.requirements import Requirement

from tests.support.servers import missing

ROOT = Path(__file__).parents[3]


def build(directory: Path, *targets: str, source: Path = ROOT) -> list[Path]:
    """Build the targets ("wheel", "sdist") and return their files."""
    if find_spec("hatchling") is None or find_spec("hatch_fancy_pypi_readme") is None:
        missing("hatchling and hatch-fancy-pypi-readme")
    before = set(directory.glob("*"))
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(directory)]
    for target in targets:
        command += ["--target", target]
    subprocess.run(command, cwd=source, check=True, capture_output=True, timeout=300)
    return sorted(set(directory.glob("*")) - before)


class Environment:
    """A virtual environment with the wheel. The packages that the wheel and its extras require, and those that these
    require, are links to the packages of the tests: so a requirement that the wheel forgets is not there."""

    def __init__(self, directory: Path, wheel: Path, *extras: str) -> None:
        self.bin = directory / "bin"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(directory)], check=True, timeout=120)
        python = str(self.bin / "python")
        pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check"]
        install = [*pip, "install", "--no-deps", "--no-index", "--no-compile", "--quiet", str(wheel)]
        subprocess.run(install, check=True, timeout=120)
        [self.site] = directory.glob("lib/python*/site-packages")
        [metadata] = self.site.glob("presence_sessions-*.dist-info")
        for package in _required(PathDistribution(metadata), set(extras)):
            self._link(package)
        subprocess.run([*pip, "check"], check=True, capture_output=True, timeout=120)

    def _link(self, package: Distribution) -> None:
        source = Path(str(package.locate_file("")))
        for name in {file.parts[0] for file in package.files or []} - {"..", "__pycache__"}:
            if not (self.site / name).exists():
                (self.site / name).symlink_to(source / name)

    def environ(self, **own: str) -> dict[str, str]:
        """The environment of a user's shell: none of our variables, and nothing of the checkout."""
        ours = ("PRESENCE_", "STREAMLIT_", "PYTHON", "REDIS_URL")
        return {name: value for name, value in os.environ.items() if not name.startswith(ours)} | own

    def command(self, *words: str) -> list[str]:
        """The installed ``presence``."""
        return [str(self.bin / "presence"), *words]


def _required(package: Distribution, extras: set[str]) -> Iterator[Distribution]:
    """What a package with these extras requires, and what that requires in turn."""
    seen: set[tuple[str, frozenset[str]]] = set()
    todo = [(package, extras)]
    while todo:
        package, wanted = todo.pop()
        for requirement in map(Requirement, package.requires or []):
            marker = requirement.marker
            this = (requirement.name.lower(), frozenset(requirement.extras))
            if this in seen or (marker and not any(marker.evaluate({"extra": extra}) for extra in {"", *wanted})):
                continue
            seen.add(this)
            todo.append((distribution(requirement.name), requirement.extras))
            yield todo[-1][0]
