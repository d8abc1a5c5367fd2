"""`presence block-rule`."""

from __future__ import annotations

import json

import pytest

from presence_core import LoginRefused
from tests.cli.conftest import Run, table_of
from tests.conftest import on
from tests.support.facade import P

ADD = ("block-rule", "add", "--network", "198.51.100.7/24", "--reason", "attack", "--by", "Grace")


def _found(text: str) -> str:
    return text.partition(", as of ")[0]


@on("valkey-sync")
def test_a_rule_is_previewed_added_listed_and_removed(p: P, run: Run) -> None:
    p.login("ada", ip="198.51.100.7")
    p.login("ada", ip="198.51.100.8")
    assert run("block-rule", "list") == (0, "There are no block rules.\n", "")
    code, out, err = run("block-rule", "preview", "--network", "198.51.100.7/24")
    assert (code, err, _found(out)) == (0, "", "198.51.100.0/24: 2 live sessions of 1 person match")
    assert "carrier-grade NAT" in out
    code, out, err = run(*ADD, typed="1\n")
    assert (code, out) == (1, "")
    assert err.endswith("To refuse such logins, type the number of sessions: Nothing was done.\n")
    code, out, err = run(*ADD, "--message", "Call us.", typed="2\n")
    [rule] = p.block_rules()
    assert (code, out) == (0, f"Logins of 198.51.100.0/24 are refused until the rule is removed (rule {rule.id}).\n")
    with pytest.raises(LoginRefused, match="Call us"):
        p.login("eve", ip="198.51.100.9")
    assert table_of(run("block-rule", "list")[1])[1] == [
        rule.id, "198.51.100.0/24", "TIME", "-", "Grace", "attack", "-",
    ]  # fmt: skip
    assert json.loads(run("block-rule", "list", "--json")[1])[0]["network"] == "198.51.100.0/24"
    remove = ("block-rule", "remove", rule.id, "--reason", "over")
    assert run(*remove) == (0, f"Removed rule {rule.id}.\n", "")
    assert run(*remove) == (1, f"There is no rule {rule.id}.\n", "")
    assert p.login("eve", ip="198.51.100.9").replaced == []


@on("valkey-sync")
def test_without_a_question_the_number_is_given_and_a_wide_network_typed(p: P, run: Run) -> None:
    wide = ("block-rule", "add", "--network", "10.0.0.0/8", "--reason", "attack")
    assert run(*wide, "--yes")[::2] == (
        2, "expected must be given with --yes: the most sessions that may match.\n",
    )  # fmt: skip
    code, _, err = run(*wide, "--yes", "--expected", "0")
    assert (code, err.partition(":")[0]) == (2, 'confirm_wide must be "10.0.0.0/8"')
    assert run(*wide, typed="0\n")[0] == 1
    assert p.block_rules() == []
    assert run(*wide, "--for", "60", typed="10.0.0.0/8\n")[0] == 0
    assert run(*wide, "--yes", "--expected", "0", "--confirm-wide", "10.0.0.0/8")[0] == 0
    p.login("ada", app="ios", app_version="4")
    version = ("block-rule", "add", "--app", "ios", "--app-version", "4", "--reason", "broken", "--yes", "--expected")
    assert run(*version, "0")[::2] == (
        2, "expected must be at least 1: that many sessions match now, and 0 were expected.\n",
    )  # fmt: skip
    assert run(*version, "1")[0] == 0
    assert [rule.words for rule in p.block_rules()] == ["ios 4", "10.0.0.0/8"]


@on("valkey-sync")
def test_a_country_is_confirmed_by_its_code(p: P, run: Run) -> None:
    country = ("block-rule", "add", "--country", "fr", "--reason", "attack")
    assert run(*country, typed="0\n")[0] == 1
    code, out, err = run(*country, typed="FR\n")
    assert (code, out.partition(" (rule")[0]) == (0, "Logins of FR are refused until the rule is removed")
    assert "Only logins with a known place are refused. A country has many people." in err
    assert run(*country, "--yes", "--expected", "0")[::2] == (
        2, 'confirm_wide must be "FR": a country has many people.\n',
    )  # fmt: skip
    assert run(*country, "--yes", "--expected", "0", "--confirm-wide", "FR")[0] == 0
    assert [(rule.country, rule.words) for rule in p.block_rules()] == [("FR", "FR")]
