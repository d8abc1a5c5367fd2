"""The texts in ``files`` are what the code makes."""

from __future__ import annotations

import sys

import pytest

from tests.conftest import Bed
from tests.golden import TEXTS, difference
from tests.golden.namespace import SETTINGS, lines


@pytest.mark.parametrize("name", TEXTS)
def test_a_golden_file_is_what_the_code_makes(name: str) -> None:
    if name == "help.txt" and sys.version_info[:2] != (3, 11):
        pytest.skip("other versions of argparse lay the help out differently")
    changed = difference(name, "\n".join(TEXTS[name]()) + "\n")
    assert not changed, changed


def test_a_fixed_sequence_of_calls_leaves_the_same_keys_fields_and_values(bed: Bed) -> None:
    bed.namespace = SETTINGS["namespace"]
    bed.restore({})
    changed = difference("namespace.txt", "\n".join(lines(bed.connect(**SETTINGS), bed.raw)) + "\n")
    bed.restore({})
    assert not changed, changed
