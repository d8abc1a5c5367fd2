"""The list of mutants, read from the TOML files in this folder."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parent.parent


@dataclass(frozen=True, slots=True)
class Mutant:
    """One wrong change."""

    domain: str  #: the name of its TOML file
    name: str  #: a sentence that says what is wrong
    file: str  #: relative to the checkout
    find: str  #: occurs exactly once in that file
    replace: str
    tests: tuple[str, ...]  #: node ids of pytest: the quick tests that are expected to catch it

    def applied(self, text: str) -> str:
        """The file's text with the bug. Raises ValueError if ``find`` does not occur exactly once."""
        if (count := text.count(self.find)) != 1:
            raise ValueError(f"{self.name!r}: {self.file} has {count} times, and not once: {self.find!r}")
        return text.replace(self.find, self.replace)


def read_catalogue() -> list[Mutant]:
    """Every mutant, by file name and then in the order of the file."""
    return [
        Mutant(**{**row, "domain": path.stem, "tests": tuple(row["tests"])})
        for path in sorted(HERE.glob("*.toml"))
        for row in tomllib.loads(path.read_text("utf-8"))["mutant"]
    ]


def stale(mutants: list[Mutant], root: Path = ROOT) -> list[str]:
    """Mutants that no longer fit the code, a sentence for each; empty if all of them apply."""
    problems = []
    names: set[str] = set()
    for mutant in mutants:
        try:
            if mutant.applied((root / mutant.file).read_text("utf-8")) == (root / mutant.file).read_text("utf-8"):
                problems.append(f"{mutant.name!r} changes nothing")
        except (OSError, ValueError) as error:
            problems.append(str(error))
        if mutant.name in names:
            problems.append(f"{mutant.name!r} is the name of two mutants")
        names.add(mutant.name)
        if not mutant.tests:
            problems.append(f"{mutant.name!r} names no test")
        problems += [problem for node in mutant.tests if (problem := _missing(node, root))]
    return problems


def _missing(node: str, root: Path) -> str | None:
    path, _, function = node.partition("[")[0].partition("::")
    if not (root / path).exists():
        return f"there is no {path}"
    if function and f"def {function.rpartition('::')[2]}(" not in (root / path).read_text("utf-8"):
        return f"{path} has no test {function}"
    return None
