"""docs/use/recipes.md is correct: every snippet runs, and returns what the text next to it says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Bed, on

DOCUMENT = Path(__file__).parents[3] / "docs/use/recipes.md"


def _snippets() -> dict[str, list[str]]:
    """Heading → its snippets."""
    parts = re.split(r"^## (R\d).*$", DOCUMENT.read_text("utf-8"), flags=re.MULTILINE)
    return {
        name: re.findall(r"```python\n(.*?)```", text, re.DOTALL)
        for name, text in zip(parts[1::2], parts[2::2], strict=True)
    }


@pytest.fixture
def run(bed: Bed) -> Iterator[Any]:
    """Run the snippets of a recipe on an empty server; returns the names that they define."""
    bed.raw.flushall()
    known: dict[str, Any] = {"URL": bed.url, "user": "ada", "friends": [f"u{number}" for number in range(500)]}

    def run(recipe: str) -> dict[str, Any]:
        for snippet in _snippets()[recipe]:
            exec(compile(snippet, f"{DOCUMENT.name}, {recipe}", "exec"), known)
        return known

    yield run
    for value in known.values():
        if hasattr(value, "close") and not isinstance(value, type):
            value.close()
    bed.raw.flushall()


@on("valkey-sync", "redis7-sync")
def test_every_recipe_has_its_snippets_and_all_of_them_run(run: Any) -> None:
    snippets = _snippets()
    assert list(snippets) == ["R1", "R2", "R3", "R4", "R5"]
    assert [len(some) for some in snippets.values()] == [1, 1, 1, 1, 3]
    for recipe in snippets:
        run(recipe)


@on("valkey-sync")
def test_the_visitor_counter_counts(run: Any) -> None:
    counter = run("R1")["counter"]
    assert [counter(visitor) for visitor in ("s1", "s2", "s1")] == [{"online": 1}, {"online": 2}, {"online": 2}]


@on("valkey-sync")
def test_in_single_device_mode_a_login_replaces_the_previous_one(run: Any) -> None:
    single = run("R2")["single"]
    first, second = single.login("6"), single.login("6")
    assert not single.validate(first.token)
    assert single.validate(second.token)


@on("valkey-sync", "redis7-sync")
def test_friends_are_found_by_both_trackers_and_by_sessions(run: Any, bed: Bed) -> None:
    known = run("R5")
    bed.raw.zadd("{users}:last.visit", {"bob": 5})
    bed.raw.zadd("{users}:friends:ada", {"bob": 1, "cy": 2, "eve": 3})
    for friend in ("cy", "bob"):
        known["last_visit"].touch(friend)
        known["visit"](friend)
        known["presence"].login(friend)
    assert known["last_visit"].online_friends("{users}:friends:ada") == ["bob", "cy"]
    assert known["online"]() == ["bob", "cy"]
    assert known["presence"].online_among(["bob", "cy", "eve"]) == {"bob", "cy"}
