"""The installed packages: exact versions, and for CI the digest of every file, from any source."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
LOCK = (ROOT / "requirements-lock.txt").read_text("utf-8")
ENTRY = re.compile(r"^([a-z0-9-]+)==(\S+)[^\\\n]*((?: \\\n    --hash=sha256:[0-9a-f]{64})+)\n", re.MULTILINE)


def _pins(name: str) -> dict[str, str]:
    lines = re.findall(r"^([A-Za-z0-9_.-]+)(?:\[\w+\])?==([^;\s]+)", (ROOT / name).read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[-_.]+", "-", package).lower(): version for package, version in lines}


def test_all_packages_of_ci_are_pinned_with_the_digest_of_each_file() -> None:
    entries = ENTRY.findall(LOCK)
    assert ENTRY.sub("", LOCK) == "", "nothing stands in it without a digest"
    locked = {(name, version) for name, version, _ in entries}
    wanted = _pins("requirements.txt") | _pins("requirements-dev.txt")
    assert len(wanted) > 30
    assert set(wanted.items()) <= locked, "the lock is younger than what it was made of: make lock"
    assert len(locked) > len(wanted), "and what those need in turn"


def test_the_lock_names_no_registry() -> None:
    assert "//" not in LOCK
    assert "index" not in LOCK


def test_ci_installs_from_the_lock() -> None:
    assert (ROOT / ".ci" / "run").read_text("utf-8").endswith("\nmake test LOCKED=yes\n")


@pytest.mark.skipif(not shutil.which("make"), reason="needs make")
def test_the_lock_is_installed_even_into_a_complete_environment(tmp_path: Path) -> None:
    for name in ("Makefile", "requirements.txt", "requirements-dev.txt", "requirements-lock.txt"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / ".venv").mkdir()

    def done(*made: str, locked: str) -> str:
        for stamp in made:
            (tmp_path / ".venv" / stamp).touch()
        words = ["make", "--dry-run", "lint", f"LOCKED={locked}"]
        return subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    locked, free = "--require-hashes -r requirements-lock.txt", "-r requirements-dev.txt"
    assert (locked in done(locked="yes"), free in done(locked="")) == (True, True)
    assert "pip install" not in done(".run", ".dev", locked="")
    assert locked in done(locked="yes")
    assert "pip install" not in done(".dev-locked", locked="yes")


@pytest.mark.skipif(not shutil.which("make"), reason="needs make")
def test_make_floor_tests_with_the_oldest_versions_of_this_project() -> None:
    words = ["make", "--dry-run", "--old-file=.venv/tools/.made", "floor", "ARGS="]  # not those of `make test ARGS=…`
    said = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "--resolution lowest-direct" in said
    assert "pyproject.toml --extra all " in said
    assert ".venv-floor/bin/python -m pytest -n 4 --dist loadgroup --no-loadscope-reorder tests/contract\n" in said


@pytest.mark.skipif(not shutil.which("make"), reason="needs make")
def test_a_release_asks_for_the_address_of_the_project_and_writes_it_into_its_one_place(tmp_path: Path) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    ours = (ROOT / "pyproject.toml").read_text("utf-8")
    address = tomllib.loads(ours)["project"]["urls"]["Source"]
    (tmp_path / "pyproject.toml").write_text(ours.replace(address, "https://presence-core.example"), "utf-8")
    command = ["make", "--old-file=.venv/tools/.made", "release"]
    asked = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert asked.returncode == 2
    assert "Run make release ADDRESS=https://" in asked.stderr
    built = subprocess.run([*command, "ADDRESS=https://git.test/a/b"], cwd=tmp_path, capture_output=True, check=False)
    assert built.returncode == 2, "there is nothing to build here"
    project = tomllib.loads((tmp_path / "pyproject.toml").read_text("utf-8"))["project"]
    assert {url.removeprefix("https://git.test/a/b") for url in project["urls"].values()} == {
        "", "/issues", "/blob/main/CHANGELOG.md", "/blob/main/docs/use/quickstart.md"
    }  # fmt: skip
    assert "presence-core.example" not in (tmp_path / "pyproject.toml").read_text("utf-8")
