"""The variants of a test take turns on its backends, and none is left out on all of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import HERE, _not_their_turn


@dataclass(eq=False)
class Item:
    """What is read of a pytest item. As pytest counts, the variants of a backend go on where the last ones ended."""

    backend: int
    variant: int
    of: int

    nodeid: str = "test_file.py::test_it[backend-variant]"
    path: Path = HERE / "contract" / "test_file.py"

    @property
    def callspec(self) -> Any:
        return SimpleNamespace(indices={"bed": self.backend, "variant": self.backend * self.of + self.variant})


@pytest.mark.parametrize("number", [2, 3, 8, 9])
def test_each_variant_and_each_backend_of_a_test_has_its_turn(number: int) -> None:
    items: list[Any] = [Item(backend, variant, number) for backend in range(2) for variant in range(number)]
    left_out = _not_their_turn(items)
    turns = [(item.variant, item.backend) for item in items if item not in left_out]
    assert sorted(variant for variant, _ in turns) == list(range(number))
    assert {backend for _, backend in turns} == {0, 1}
