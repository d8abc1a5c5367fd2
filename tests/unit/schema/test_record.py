"""The table of the session record, and what else has a list of its fields."""

from __future__ import annotations

import re
from pathlib import Path

import presence_core
from presence_core.operations.sessions.login_row import LoginRow
from presence_core.schema.record import FIELDS, GIVEN

ROOT = Path(presence_core.__file__).parent


def test_no_two_fields_have_one_name_or_one_letter() -> None:
    assert len({field.name for field in FIELDS}) == len({field.letter for field in FIELDS}) == len(FIELDS)


def test_a_checked_login_has_a_value_for_each_field_that_it_sends_as_it_is() -> None:
    assert {field.name for field in GIVEN} <= set(LoginRow.__slots__)


def test_the_fields_that_a_truncation_cuts_are_marked() -> None:
    script = (ROOT / "lua" / "privacy" / "truncate_addresses.lua").read_text("utf-8")
    [read] = re.findall(r"'HMGET', record, 'e', (.*)\)", script)
    assert set(re.findall(r"'(\w+)'", read)) == {field.letter for field in FIELDS if field.is_cut}
