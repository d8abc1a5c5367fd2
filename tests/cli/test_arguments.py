"""Arguments that make no sense, exit codes, and the documentation of findings."""

from __future__ import annotations

import ast

import pytest

from tests.cli.conftest import ROOT, Run
from tests.conftest import on
from tests.support.facade import P

WHEN = "must be like 2026-01-31T12:00 (UTC), or Unix seconds"

WRONG: list[tuple[tuple[str, ...], str]] = [
    ((), "presence: the following arguments are required: command"),
    (("lst",), "presence: argument command: invalid choice: 'lst'"),
    (("list", "--limit", "many"), "presence list: argument --limit: invalid int value: 'many'"),
    (("list", "--limit", "0"), "limit must be a whole number from 1 to 1000."),
    (("list", "--limit", "1001"), "limit must be a whole number from 1 to 1000."),
    (("list", "--cursor", "x", "--count"), "presence list: argument --count: not allowed with argument --cursor"),
    (("list", "--count", "--explain"), "presence list: argument --explain: not allowed with argument --count"),
    (("list", "--cursor", "x"), "cursor must be one that list_sessions gave."),
    (("list", "--ip", "everywhere"), "ip must be an IPv4 or IPv6 address, or a network such as 192.0.2.0/24."),
    (("list", "--text", ""), "text must be text of 1 to 256 bytes."),
    (("list", "--idle-for", "-1"), "idle_for must be a whole number from 0 to 315360000."),
    (("list", "--seen-within", "0"), "seen_within must be whole seconds from 1 to 315360000 (10 years)."),
    (("list", "--app-version-below", "new"),
     "app_version_below must be a version that begins with a number, such as 2.10."),
    (("list", "--method", "PWD"),
     "methods must be at most 8 names of 1 to 16 of a-z, 0-9, _ and -, 55 characters in all."),
    *((("list", "--without", pair), "without must be FIELD=VALUE, FIELD being another filter: device=iPhone.")
      for pair in ("device", "colour=red", "without=device=tv", "attributes={}", "methods=pwd", "")),
    (("list", "--without", "device=a", "--without", "device=b"),
     "without must name each field once, but for attribute and method."),
    (("list", "--without", "idle-for=x"), "without.idle_for must be a whole number from 0 to 315360000."),
    (("list", "--without", "mfa=maybe"), "without.mfa must be True or False."),
    (("list", "--without", "logged_in_after=soon"), f"without.logged_in_after {WHEN}."),
    (("list", "--without", "idle_for=0"), "without must have at least one field: else no session matches."),
    (("list", "--attribute", "tenant"), "attribute must be NAME=VALUE."),
    *(((*words, "--attribute", "floor=1", "--attribute", "floor=2"), "attribute must name each attribute once.")
      for words in (("list",), ("login", "ada"), ("kick-where", "--reason", "x"))),
    (("list", "--attribute", "floor=NaN"), "attributes must contain only JSON values."),
    *((("list", "--logged-in-after", when), f"presence list: argument --logged-in-after: {WHEN}")
      for when in ("", "soon", "99", "1790000000000", "1712012300000", "nan", "inf", "-1", "0001-01-01", "20261301")),
    (("list", "ada"), "presence: unrecognized arguments: ada"),
    (("list", "a\x1b[2J\nb"), "presence: unrecognized arguments: a\\u{1b}[2J\\u{a}b"),
    (("people",), "presence people: the following arguments are required: text"),
    (("people", " "), "text must be text of 1 to 256 bytes, not only white space."),
    (("people", "ada", "--limit", "0"), "limit must be a whole number from 1 to 100."),
    (("facets",), "presence facets: the following arguments are required: field"),
    (("facets", "uid"), "field must be one of device,"),
    (("revoke-before", "--reason", "x"), "presence revoke-before: the following arguments are required: --before"),
    (("revoke-before", "--before", "now"), "presence revoke-before: the following arguments are required: --reason"),
    (("revoke-before", "--before", "yesterday", "--reason", "x"),
     f"presence revoke-before: argument --before: {WHEN}"),
    (("reindex", "now"), "presence: unrecognized arguments: now"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "sentence"), WRONG, ids=[" ".join(words) or "-" for words, _ in WRONG])
@on("valkey-sync")
def test_a_wrong_argument_is_answered_with_one_sentence(run: Run, words: tuple[str, ...], sentence: str) -> None:
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert err.startswith(sentence), err
    assert err.count("\n") == 1
    assert err.endswith(".\n")


@on("valkey-sync")
def test_times_are_parsed(p: P, run: Run) -> None:
    p.login("ada")
    for when in ("2020-01-31", "20200131", "2020-01-31T12:00", "2020-01-31 12:00:00+02:00", "1580000000", "1.58e9"):
        assert run("list", "--count", "--logged-in-after", when) == (0, "1\n", ""), when
        assert run("list", "--count", "--logged-in-before", when) == (0, "0\n", ""), when


@on("valkey-sync")
def test_the_exit_code_is_3_while_redis_is_unavailable(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRESENCE_REDIS_URL", "redis://127.0.0.1:1")
    monkeypatch.setenv("PRESENCE_TIMEOUT", "0.1")
    commands = ("list", "list --count", "list --explain", "people ada", "facets app", "reindex",
                "revoke-before --before now --reason x --yes")  # fmt: skip
    for words in commands:
        code, out, err = run(*words.split())
        assert (code, out) == (3, ""), words
        assert err.startswith("Redis at 127.0.0.1:1 "), words
        assert err.count("\n") == 1


def test_every_warning_and_error_of_the_doctor_says_what_to_do() -> None:
    modules = (ROOT / "presence_core/operations").rglob("*.py")
    calls = [
        node
        for module in modules
        for node in ast.walk(ast.parse(module.read_text("utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Finding"
    ]
    assert len(calls) > 30
    fine = ("'ok'", "'note'")
    assert [ast.unparse(call) for call in calls if len(call.args) < 4 and ast.unparse(call.args[0]) not in fine] == []
