"""`make pythons`: every Python is tested or named as missing. The classifiers name the same Pythons."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
# Instead of the tests: which interpreter, and in which environment. That of 3.13 fails.
RECIPE = """
test:
	@echo 'ran $(VENV)' "$$('$(PYTHON)' -c 'import sys; print(sys.version_info[:3])')"; test $(VENV) != .venv-3.13
"""


def _python(path: Path, *version: int, complete: bool = True) -> None:
    """This Python, which says that it is another version."""
    path.parent.mkdir(parents=True, exist_ok=True)
    code = f"import importlib.util as u, sys; words = sys.argv; sys.version_info = {version}; "
    code += "" if complete else "u.find_spec = lambda name: None; "
    code += "sys.argv = ['-c', *words[3:]]; exec(words[2])"
    path.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{code}" "$@"\n')
    path.chmod(0o755)


def _make(folder: Path, *targets: str) -> subprocess.CompletedProcess[str]:
    """On a machine that has only the Pythons below `folder`."""
    tools = folder / "tools"
    tools.mkdir()
    for tool in ("make", "sh", "sed", "awk", "sort", "rm", "find"):
        found = shutil.which(tool)
        assert found
        (tools / tool).symlink_to(found)
    (folder / "Makefile").write_text((ROOT / "Makefile").read_text("utf-8") + RECIPE)
    for name in ("requirements.txt", "requirements-dev.txt"):
        (folder / name).touch()
    for version in ("3.11", "3.12", "3.13", "3.14"):
        (folder / f".venv-{version}").mkdir()
        (folder / f".venv-{version}" / ".dev").touch()
    environment = {"PATH": f"{tools}:{folder / 'bin'}", "HOME": str(folder / "home of someone")}
    pyenv_only = '"$$HOME"/.pyenv/versions/3.*/bin'
    return subprocess.run(
        ["make", *targets, f"PYTHON_FOLDERS={pyenv_only}"], cwd=folder, env=environment, capture_output=True, text=True
    )


@pytest.mark.skipif(not shutil.which("make"), reason="needs make")
def test_make_pythons_runs_the_suite_on_each_python_and_names_the_missing_ones(tmp_path: Path) -> None:
    _python(tmp_path / "bin" / "python3", 3, 14, 2)
    _python(tmp_path / "bin" / "python3.10", 3, 10, 9)
    versions = tmp_path / "home of someone" / ".pyenv" / "versions"
    _python(versions / "3.12.1" / "bin" / "python3.12", 3, 12, 1)
    _python(versions / "3.12.10" / "bin" / "python3", 3, 12, 10)
    _python(versions / "3.12.11" / "bin" / "python3", 3, 12, 11, complete=False)  # no venv
    shim = tmp_path / "bin" / "python3.13"
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    made = _make(tmp_path, "pythons")
    assert made.returncode == 0, made.stderr
    assert [line for line in made.stdout.splitlines() if line] == [
        "Python 3.11: not found",
        f"Python 3.12: {versions}/3.12.10/bin/python3",
        "Python 3.13: not found",
        f"Python 3.14: {tmp_path}/bin/python3",
        "== Python 3.12",
        "ran .venv-3.12 (3, 12, 10)",
        "== Python 3.14",
        "ran .venv-3.14 (3, 14, 2)",
        "Pythons: 3.11 not found, 3.12 passed, 3.13 not found, 3.14 passed",
    ]


@pytest.mark.skipif(not shutil.which("make"), reason="needs make")
def test_make_pythons_fails_if_one_fails_and_tests_the_others(tmp_path: Path) -> None:
    for minor in (11, 13, 14):
        _python(tmp_path / "bin" / f"python3.{minor}", 3, minor, 0)
    made = _make(tmp_path, "pythons")
    assert made.returncode != 0
    assert made.stdout.endswith("\nPythons: 3.11 passed, 3.12 not found, 3.13 FAILED, 3.14 passed\n")


@pytest.mark.skipif(not shutil.which("make"), reason="needs make")
def test_make_pythons_fails_if_it_finds_no_python(tmp_path: Path) -> None:
    made = _make(tmp_path, "pythons")
    assert made.returncode != 0
    assert "No Python from 3.11 was found: nothing was tested.\n" in made.stderr


@pytest.mark.skipif(not shutil.which("make"), reason="needs make")
def test_the_environments_of_make_pythons_are_ignored_by_git_and_removed_by_make_clean(tmp_path: Path) -> None:
    assert ".venv-3.*/" in (ROOT / ".gitignore").read_text("utf-8").splitlines()
    made = _make(tmp_path, "clean")
    assert made.returncode == 0, made.stderr
    assert not list(tmp_path.glob(".venv*"))


def test_the_classifiers_name_the_pythons_that_are_tested_and_the_systems_that_are_supported() -> None:
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["classifiers"]
    tested = re.findall(r"^PYTHONS := (.*)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)[0].split()
    assert re.findall(r"Python :: (3\.\d+)$", "\n".join(classifiers), re.MULTILINE) == tested
    assert [word for word in classifiers if word.startswith("Operating System")] == [
        "Operating System :: MacOS",
        "Operating System :: POSIX :: Linux",
    ]
