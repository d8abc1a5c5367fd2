"""The rest of the table of bad arguments: what staff do beside kicks and blocks, and what they ask of people."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tests.bad_input import BY, CONTROL, MOMENTS, NOT_UNICODE, PROSE, SPACE, Case, _same, _text

_GOOD: dict[str, Any] = {"by": "staff", "reason": "test"}
_NAME = "name must be text of 1 to 128 bytes"
_PRINTABLE = f"{_NAME}, all of it printable, with no space at its ends"

_BYS = _text(BY, 256) + _same(BY, None)
_NAMES = [
    *_same(_NAME, "", "x" * 129, "é" * 65, 5, b"ada", True, ["ada"]),
    *_same(_NAME + SPACE, " ", "\u2028"),
    *_same(_NAME + CONTROL, "a\nb", "a\0b", "\x1b[2J"),
    *_same(_NAME + NOT_UNICODE, "\ud800"),
    *_same(_PRINTABLE, None, " ada", "ada ", "a\u2028b", "a\u202eb"),
]
_ROLES = _same(
    "role must be one of stats, viewer, support, admin",
    None,
    "",
    "root",
    "Admin",
    "removed",
    5,
    True,
    b"admin",
    ["admin"],
)


def _of_staff() -> list[Case]:
    cases = []
    for method in ("set_staff", "seed_staff", "remove_staff", "staff_member"):
        role = ("viewer",) if method in ("set_staff", "seed_staff") else ()
        options = {} if method == "staff_member" else {"by": "root"}
        cases += [Case(method, (value, *role), options, sentence) for value, sentence in _NAMES]
        if role:
            cases += [Case(method, ("ada", value), options, sentence) for value, sentence in _ROLES]
        if options:
            cases += [Case(method, ("ada", *role), {"by": value}, sentence) for value, sentence in _BYS]
    return cases


def _of_everybody_out() -> list[Case]:
    cases = [
        Case("revoke_before", (value,), _GOOD, "at must be an aware datetime or Unix seconds") for value in MOMENTS
    ]
    cases += [Case("revoke_before", (), _GOOD | {"by": value}, sentence) for value, sentence in _BYS]
    for field, values in (("reason", PROSE + _same(PROSE[0][1], None)), ("message", PROSE)):
        cases += [Case("revoke_before", (), _GOOD | {field: value}, f"{field}{rest}") for value, rest in values]
    return cases


def _of_questions() -> list[Case]:
    text = "text must be text of 1 to 256 bytes"
    cases = [Case("people", (value,), {}, sentence) for value, sentence in _text(text, 256) + _same(text, None)]
    cases += [Case("people", (value,), {}, "text must hold more than accents") for value in ("\u0301", "´")]
    limits: list[Any] = [0, -1, 101, 1.5, "20", True, None]
    cases += [
        Case("people", ("ada",), {"limit": value}, "limit must be a whole number from 1 to 100") for value in limits
    ]
    cases += [
        Case("audit_note", (), {"by": "staff", "what": "look", "outcome": value}, f"outcome{rest}")
        for value, rest in PROSE
    ]
    block_for = "block_for must be whole seconds from 1 to 315360000 (10 years)"
    no_seconds: list[Any] = [0, -1, 315_360_001, 1.5, "60", True, timedelta(hours=1)]
    cases += [Case("kick", ("ada",), _GOOD | {"block_for": value}, block_for) for value in no_seconds]
    until, shorten = "until must be an aware datetime or Unix seconds", "shorten must be True or False"
    cases += [Case("block", ("ada",), _GOOD | {"until": value}, until) for value in MOMENTS]
    cases += [Case("block", ("ada",), _GOOD | {"shorten": value}, shorten) for value in (None, 0, 1, "yes")]
    waits: list[Any] = [-1, 7201, "20", True, float("nan")]
    cases += [Case("close", (), {"wait": value}, "wait must be 0 to 7200 seconds") for value in waits]
    return cases


STAFF_CASES = _of_staff() + _of_everybody_out() + _of_questions()
