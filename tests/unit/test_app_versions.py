"""The order of versions of an app, as ``app_version_below`` compares them."""

from __future__ import annotations

from itertools import combinations

import pytest

from presence_core.text.app_versions import is_below, version_key

RISING = [
    *("0", "0.9", "1", "1.0.1", "1.9", "1.10"),
    *("2-alpha", "2-alpha.2", "2-beta", "2.0-RC.1", "2rc2", "2.0-rc10"),
    *("2", "2.0-4-g1a2b", "2 (99)", "2.0.0 (build 100)"),
    *("2.1", "2.1.5", "2.11", "10", "2024.1", "99999999999999999999"),
]
"""Each is lower than those behind it."""

EQUAL = [
    "2.1",
    "v2.1",
    "V 2.1.0",
    "Version 2.1",
    " 2.1 ",
    "2.1.0.0",
    "2.1+debug",
    "2.1-release",
    "2.1-PROD",
    "2.1 (stable)",
]


def test_versions_are_compared_by_their_numbers_and_then_by_text() -> None:
    for lower, higher in combinations(RISING, 2):
        assert is_below(lower, higher), (lower, higher)
        assert not is_below(higher, lower), (higher, lower)


def test_versions_that_differ_only_in_their_writing_are_equal() -> None:
    assert {version_key(version) for version in EQUAL} == {version_key("2.1")}


@pytest.mark.parametrize("version", [None, "", " ", "beta", "nightly-2", "build 7", "-1", ".5", "٢.1", "²"])
def test_a_version_that_begins_with_no_number_is_below_none(version: str | None) -> None:
    assert version_key(version or "") is None
    assert not is_below(version, "999")
