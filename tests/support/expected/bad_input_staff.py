"""The rest of the table of bad arguments: other staff actions than kicks and blocks, and their searches for people."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from presence_core import ApprovedAct, AuditFact, SessionFilter
from tests.support.expected.bad_input import (
    BY,
    CONTROL,
    MOMENTS,
    NOT_UNICODE,
    PROSE,
    SPACE,
    UIDS,
    Case,
    _same,
    _text,
    searched,
)

_GOOD: dict[str, Any] = {"by": "staff", "reason": "test"}
_ACT: Any = ApprovedAct(sessions=1, reason="test")
_NAME = "name must be text of 1 to 128 bytes"
_PRINTABLE = "name must be 1 to 128 bytes of printable text, with no space at either end"

_BYS = _text(BY, 256) + _same(BY, None)
_NAMES = [
    *_same(_NAME, "", "x" * 129, "é" * 65, b"ada", True, ["ada"]),
    *_same(f"{_NAME}, not a number", 5),
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
    for method in ("set_staff", "add_staff", "seed_staff", "remove_staff", "staff_member"):
        role = ("viewer",) if method in ("set_staff", "add_staff", "seed_staff") else ()
        options = {} if method == "staff_member" else {"by": "root"}
        cases += [Case(method, (value, *role), options, sentence) for value, sentence in _NAMES]
        if role:
            cases += [Case(method, ("ada", value), options, sentence) for value, sentence in _ROLES]
        if options:
            cases += [Case(method, ("ada", *role), {"by": value}, sentence) for value, sentence in _BYS]
    return cases


def _of_saved_items() -> list[Case]:
    kinds = _same('kind must be "view" or "phrase" or "watch"', None, "", "views", 5, b"view")
    names = _text("name must be text of 1 to 256 bytes", 256) + _same("name must be text of 1 to 256 bytes", None)
    names += _same("name must not begin or end with a space", " a", "a ")
    rule = "text must be text of at most 4,096 bytes"
    texts = _same(rule, None, 5, b"x", "x" * 4097, "é" * 2049)
    texts += _same(rule + CONTROL, "a\0b", "\ud800", "\x1b[2J")
    cases = [Case("saved_items", (value,), {}, sentence) for value, sentence in kinds]
    cases += [Case("save_item", (value, "a", "b"), {"by": "root"}, sentence) for value, sentence in kinds]
    cases += [Case("save_item", ("view", value, "b"), {"by": "root"}, sentence) for value, sentence in names]
    cases += [Case("remove_item", ("view", value), {"by": "root"}, sentence) for value, sentence in names]
    cases += [Case("save_item", ("view", "a", value), {"by": "root"}, sentence) for value, sentence in texts]
    cases += [Case("save_item", ("view", "a", "b"), {"by": value}, sentence) for value, sentence in _BYS]
    cases += [Case("remove_item", ("view", "a"), {"by": value}, sentence) for value, sentence in _BYS]
    renamed = "instead_of must not begin or end with a space"
    cases.append(Case("save_item", ("view", "a", "b"), {"by": "root", "instead_of": " a"}, renamed))
    owner = _text("owner must be text of 1 to 256 bytes", 256)
    cases += [Case("saved_items", ("view",), {"owner": value}, sentence) for value, sentence in owner]
    cases += [Case("note_viewer", ("ada",), {"by": value}, sentence) for value, sentence in _BYS]
    cases += [Case("note_viewer", (value,), {"by": "root"}, sentence) for value, sentence in UIDS]
    for value, sentence in UIDS:
        cases += [Case("add_remark", (value, "a"), {"by": "root"}, sentence)]
        cases += [Case("remove_remark", (value, "0" * 16), {"by": "root"}, sentence)]
        cases += [Case("remarks", (value,), {}, sentence)] if value is not None else []
        cases += [Case("remarks_among", ([value],), {}, sentence)]
    for value, sentence in _BYS:
        cases += [Case("add_remark", ("ada", "a"), {"by": value}, sentence)]
        cases += [Case("remove_remark", ("ada", "0" * 16), {"by": value}, sentence)]
    cases += [Case("add_remark", ("ada", value), {"by": "root"}, f"text{sentence}") for value, sentence in PROSE]
    sentence = "remark_id must be the id of a remark"
    ids: list[Any] = [None, "", 5, "0" * 15, "0" * 17, "a b" + "0" * 13, b"0" * 16]
    cases += [Case("remove_remark", ("ada", value), {"by": "root"}, sentence) for value in ids]
    limits: list[Any] = [0, 1001, "5", None, 1.5]
    sentence = "limit must be a whole number from 1 to 1000"
    cases += [Case("remarks", (), {"limit": value}, sentence) for value in limits]
    flags: list[Any] = [None, 0, 1, "yes"]
    for value in flags:
        shared = {"by": "root", "shared": value}
        cases.append(Case("save_item", ("view", "a", "b"), shared, "shared must be True or False"))
        cases.append(Case("remove_item", ("view", "a"), shared, "shared must be True or False"))
        cases.append(Case("note_viewer", ("ada",), {"by": "root", "closed": value}, "closed must be True or False"))
    return cases


def _of_requests() -> list[Case]:
    good: dict[str, Any] = _GOOD | {"sessions": 1, "country": "FR"}
    bare = _GOOD | {"sessions": 1}
    cases = [Case("ask_approval", (), good | {"by": value}, sentence) for value, sentence in _BYS]
    cases += [Case("ask_approval", (), good | {"reason": value}, f"reason{rest}") for value, rest in PROSE]
    cases += [Case("ask_approval", (), good | {"message": value}, f"message{rest}") for value, rest in PROSE]
    ticket = _text("ticket must be text of 1 to 64 bytes", 64)
    cases += [Case("ask_approval", (), good | {"ticket": value}, sentence) for value, sentence in ticket]
    numbers: list[Any] = [-1, None, "5", 1.5, True]
    whole = "sessions must be a whole number from 0 to 1000000000"
    cases += [Case("ask_approval", (), good | {"sessions": value}, whole) for value in numbers]
    lapse = "lapse_after must be a whole number from 60 to 604800"
    cases += [Case("ask_approval", (), good | {"lapse_after": value}, lapse) for value in (*numbers, 59, 604_801)]
    seconds = "duration must be whole seconds from 1 to 315360000 (10 years)"
    cases += [Case("ask_approval", (), good | {"duration": value}, seconds) for value in (0, -1, 1.5, "60", True)]
    refs, act = "exclude must be a list of refs", {"by": "eve"}
    cases += [Case("ask_approval", (), good | {"exclude": value}, refs) for value in ("a:session-1", b"a", None, 5)]
    cases += [
        Case("ask_approval", (), bare, "filter must be given, or what a block rule refuses, or both"),
        Case("ask_approval", (), bare | {"filter": "ada"}, "filter must be a SessionFilter"),
        Case("ask_approval", (), bare | {"filter": SessionFilter()},
             "filter must have at least one field: use revoke_before to sign out everyone"),
        Case("ask_approval", (), bare | {"filter": SessionFilter(uid="a"), "duration": 5},
             "duration must not be given without a block rule"),
        Case("ask_approval", (), bare | {"country": "FRA"},
             "country must be the two letters of an ISO country code, such as FR"),
        *(Case("ask_approval", (), good | {field: value}, seconds.replace("duration", field))
          for field in ("idle_timeout", "absolute_timeout") for value in (0, -1, 1.5, "60", True)),
        *(Case("ask_approval", (), given | {"idle_timeout": 60},
               "idle_timeout must come with a filter, without a block rule and exclude")
          for given in (good, bare | {"filter": SessionFilter(uid="a"), "exclude": ["a:session-1"]})),
        Case("ask_approval", (), good | {"exclude": ["a:session-1"] * 201}, "exclude must be at most 200 refs"),
        Case("answer_request", ("request-1", "allow"), {"by": "staff"},
             'answer must be "approve" or "refuse" or "withdraw"'),
        Case("answer_request", ("request-1", "approve"), {"by": "staff", "approved": {"sessions": 1}},
             'approved must be an ApprovedAct, with the answer "approve"'),
        Case("answer_request", ("request-1", "withdraw"), {"by": "staff", "approved": _ACT},
             'approved must be an ApprovedAct, with the answer "approve"'),
        Case("answer_request", ("request-1", "approve"), act | {"approved": replace(_ACT, sessions=-1)}, whole),
        Case("answer_request", ("request-1", "approve"), act | {"approved": replace(_ACT, exclude="a:b")}, refs),
        Case("finish_request", ("request-1",), {"by": "staff", "outcome": "x", "failed": 1},
             "failed must be True or False"),
    ]  # fmt: skip
    cases += [
        Case("ask_approval", (), bare | {"network": "1.2.3"},
             "network must be an IPv4 or IPv6 address, or a network such as 192.0.2.0/24"),
        Case("ask_approval", (), bare | {"app": "x"}, "app_version must be given: a rule is for a version of one app"),
        Case("ask_approval", (), bare | {"app_version": "1"}, "app must be given: a rule is for a version of one app"),
    ]  # fmt: skip
    wrong_id = "request_id must be 8 to 128 characters of A-Z, a-z, 0-9, _ and -"
    for value in ("", "short", "a b c d e f", 5, None):
        cases.append(Case("answer_request", (value, "approve"), {"by": "staff"}, wrong_id))
        cases.append(Case("finish_request", (value,), {"by": "staff", "outcome": "x"}, wrong_id))
    for value, sentence in _BYS:
        cases.append(Case("answer_request", ("request-1", "approve"), {"by": value}, sentence))
        cases.append(Case("finish_request", ("request-1",), {"by": value, "outcome": "x"}, sentence))
    for value, rest in PROSE:
        cases.append(Case("answer_request", ("request-1", "refuse"), {"by": "staff", "word": value}, f"word{rest}"))
        cases.append(Case("finish_request", ("request-1",), {"by": "staff", "outcome": value}, f"outcome{rest}"))
    return cases


def _of_everybody_out() -> list[Case]:
    cases = [
        Case("revoke_before", (value,), _GOOD, "at must be an aware datetime or Unix seconds") for value in MOMENTS
    ]
    cases += [Case("revoke_before", (), _GOOD | {"by": value}, sentence) for value, sentence in _BYS]
    for field, values in (("reason", PROSE + _same(PROSE[0][1], None)), ("message", PROSE)):
        cases += [Case("revoke_before", (), _GOOD | {field: value}, f"{field}{rest}") for value, rest in values]
    return cases


def _of_block_rules() -> list[Case]:
    network = "network must be an IPv4 or IPv6 address, or a network such as 192.0.2.0/24"
    good: dict[str, Any] = _GOOD | {"expected": 0}
    values: list[Any] = ["", "198.51.100", "198.51.100.0/33", "::/129", "1.2.3.4/", "0x7f.1.1.1/8", 5, b"::1", True]
    either = "network must be given, or country, or app with app_version: give one of the three"
    seconds = "duration must be whole seconds from 1 to 315360000 (10 years)"
    cases = [Case("preview_block_rule", (), {"network": value}, network) for value in values]
    cases += [Case("add_block_rule", (), good | {"network": value}, network) for value in values]
    wrong = "country must be the two letters of an ISO country code, such as FR"
    cases += [Case("preview_block_rule", (), {"country": value}, wrong) for value in ("FRA", "F1", "F")]
    must = 'confirm_wide must be "FR": a country has many people'
    cases += [
        Case("add_block_rule", (), good | {"country": "fr", "confirm_wide": value}, must) for value in (None, "DE")
    ]
    both: list[dict[str, Any]] = [{"network": "::1", "country": "FR"}, {"app": "x", "country": "FR"}]
    for options in ({}, {"network": "::1", "app": "x"}, {"network": "::1", "app_version": "1"}, *both):
        cases += [Case("preview_block_rule", (), options, either), Case("add_block_rule", (), good | options, either)]
    cases.append(
        Case("preview_block_rule", (), {"app": "x"}, "app_version must be given: a rule is for a version of one app")
    )
    must = "must be given: a rule is for a version of one app"
    cases.append(Case("add_block_rule", (), good | {"app": "x"}, f"app_version {must}"))
    cases.append(Case("add_block_rule", (), good | {"app_version": "1"}, f"app {must}"))
    here = good | {"network": "198.51.100.0/24"}
    cases += [Case("add_block_rule", (), here | {"by": value}, sentence) for value, sentence in _BYS]
    cases += [Case("add_block_rule", (), here | {"reason": value}, f"reason{rest}") for value, rest in PROSE]
    cases += [Case("add_block_rule", (), here | {"message": value}, f"message{rest}") for value, rest in PROSE]
    cases += [
        Case("add_block_rule", (), here | {"expected": value}, "expected must be a whole number from 0 to 1000000000")
        for value in (-1, None, "5", 1.5, True)
    ]
    cases += [Case("add_block_rule", (), here | {"duration": value}, seconds) for value in (0, -1, 1.5, "60", True)]
    cases.append(
        Case("add_block_rule", (), here | {"confirm_wide": "::1"}, "confirm_wide must be the network, or not be given")
    )
    ticket = _text("ticket must be text of 1 to 64 bytes", 64)
    cases += [Case("add_block_rule", (), here | {"ticket": value}, sentence) for value, sentence in ticket]
    twice = "until must not be given with duration: give one of them"
    cases.append(Case("add_block_rule", (), here | {"until": 1e10, "duration": 5}, twice))
    cases += [
        Case("remove_block_rule", (value,), _GOOD, f"rule_id must be the id of a block rule{rest}")
        for value, rest in (("", ""), (5, ", not a number"), (None, ""))
    ]
    cases += [Case("remove_block_rule", ("0",), _GOOD | {"by": value}, sentence) for value, sentence in _BYS]
    cases += [Case("remove_block_rule", ("0",), _GOOD | {"reason": value}, f"reason{rest}") for value, rest in PROSE]
    return cases


def _of_questions() -> list[Case]:
    text = "text must be text of 1 to 256 bytes"
    count = 'count must be "sessions" or "devices" or "networks" or "countries"'
    cases = [Case("top_people", (value,), {}, count) for value in (None, "", "users", 5)]
    for method, most in (("people", 100), ("did_you_mean", 10)):
        cases += [Case(method, (value,), {}, sentence) for value, sentence in searched() + _same(text, None)]
        cases += [Case(method, (value,), {}, "text must have a letter or digit") for value in ("\u0301", "´")]
        limits: list[Any] = [0, -1, 101, 1.5, "20", True, None]
        sentence = f"limit must be a whole number from 1 to {most}"
        cases += [Case(method, ("ada",), {"limit": value}, sentence) for value in limits]
    cases += [
        Case("audit_note", (), {"by": "staff", "what": "look", "outcome": value}, f"outcome{rest}")
        for value, rest in PROSE
    ]
    facts: list[Any] = [1, "ended", ["ended"], {"ended": 1}, [AuditFact("ended"), None]]
    cases += [
        Case("audit_note", (), {"by": "staff", "what": "look", "facts": value}, "facts must be a list of AuditFact")
        for value in facts
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


STAFF_CASES = (
    _of_staff() + _of_saved_items() + _of_requests() + _of_everybody_out() + _of_block_rules() + _of_questions()
)
