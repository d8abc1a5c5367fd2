"""Each condition of SessionFilter has all that it needs, wherever it is offered."""

from __future__ import annotations

import argparse
import dataclasses
from importlib.resources import files
from typing import Any, cast, get_args

import pytest

from presence_core import InvalidArgument, Session, SessionFilter, cli
from presence_core.models import WayName
from presence_core.schema.conditions import CONDITIONS, FACETS, names_of_kind
from presence_core.web.service.schemas import FilterBody, SessionsQuery
from presence_dashboard.data import session_query
from presence_dashboard.texts import english, report
from presence_dashboard.views.sessions import search_bar

VALUES: dict[str, Any] = {"ip": "192.0.2.7", "country": "fr", "network": "as64500", "logged_in_before": 2}
OF_KIND: dict[str, Any] = {
    "time": 1, "seconds": 60, "flag": True, "yes_no": False, "version": "2.10", "attributes": {"plan": "pro"},
    "methods": ("otp", "pwd"), "filter": SessionFilter(uid="Ada"),
}  # fmt: skip


def value_of(name: str) -> Any:
    """A valid value."""
    return VALUES.get(name) or OF_KIND.get(CONDITIONS[name].kind, "Ada")


def test_the_fields_of_the_filter_are_the_conditions() -> None:
    fields = {field.name: field.default for field in dataclasses.fields(SessionFilter)}
    assert fields == {name: condition.default for name, condition in CONDITIONS.items()}
    assert list(fields) == list(CONDITIONS)


@pytest.mark.parametrize("name", CONDITIONS)
def test_a_condition_has_a_check_a_comparison_and_words(name: str) -> None:
    condition = CONDITIONS[name]
    with pytest.raises(InvalidArgument, match=f"^{name} must "):
        SessionFilter(**{name: cast("Any", object())})
    assert SessionFilter(**{name: value_of(name)}).given == (name,)
    assert condition.words
    assert condition.holds or name in {field.name for field in dataclasses.fields(Session)}
    assert condition.way in (None, *get_args(WayName))


@pytest.mark.parametrize("name", CONDITIONS)
def test_lua_knows_what_a_condition_sends(name: str) -> None:
    lua = files("presence_core").joinpath("lua/include/search/filter_tests.lua").read_text("utf-8")
    sends = CONDITIONS[name].sends(value_of(name))
    assert sends or CONDITIONS[name].label or name == "without", "without it, Lua could not say yes for `without`"
    for sent in sends:
        assert f"wanted.{sent}" in lua or sent.startswith("attribute:"), sent


def test_every_condition_is_an_option_and_a_parameter() -> None:
    options = {action.dest for action in _parser("list")._actions}
    assert set(CONDITIONS) - options == {"attributes"}  # --attribute
    assert set(CONDITIONS) - set(SessionsQuery.model_fields) == {"attributes", "methods"}  # attribute=, method=
    assert set(CONDITIONS) == set(FilterBody.model_fields)


def _parser(name: str) -> argparse.ArgumentParser:
    [commands] = [action for action in cli.build_parser()._actions if isinstance(action, argparse._SubParsersAction)]
    parser: argparse.ArgumentParser = commands.choices[name]
    return parser


def test_the_dashboard_has_words_for_every_condition() -> None:
    assert set(session_query.FLAGS) == set(english.FLAG_WORDS) == set(names_of_kind("flag"))
    assert set(session_query.FACETS) == set(english.FACET_LABELS) == set(FACETS)
    assert set(report._FILTER_WORDS) == set(CONDITIONS) - {"attributes"}
    assert set(session_query.CHOICES) == {*search_bar._SECTIONS}
    assert set(session_query.MFA) == set(english.MFA_WORDS)
