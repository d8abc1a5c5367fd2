"""The list of mutants fits the code. The mutants themselves run by hand: ``make mutants``."""

from __future__ import annotations

from pathlib import Path

from tests.mutants.catalogue import Mutant, read_catalogue, stale


def test_every_mutant_still_applies() -> None:
    mutants = read_catalogue()
    assert len(mutants) >= 200
    assert stale(mutants) == []


def test_a_mutant_that_does_not_fit_is_named(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text("a < b\na < b\n")
    (tmp_path / "test_code.py").write_text("def test_a() -> None: ...\n")
    twice = Mutant("x", "twice", "code.py", "a < b", "a <= b", ("test_code.py::test_a",))
    never = Mutant("x", "never", "code.py", "a > b", "a < b", ("test_code.py::test_b[x]",))
    problems = stale([twice, never], tmp_path)
    assert [("twice" in problems[0]), ("never" in problems[1])] == [True, True]
    assert problems[2] == "test_code.py has no test test_b"
    assert len(problems) == 3
