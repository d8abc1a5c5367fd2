"""What pages show of a session: its attributes and how the visitor signed in."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from presence_core import Presence
from presence_dashboard import texts
from presence_dashboard.components import session_facts
from tests.dashboard.pages.test_history_page import history, tick
from tests.dashboard.pages.test_person_page import look_for, said

LONG = "Ada Augusta Byron King, Countess of Lovelace, " * 4


def log_in(presence: Presence) -> None:
    presence.login(
        "ada", name=LONG, methods=["pwd", "otp"], attributes={"plan": "pro", "**seats**": 7, "mail": "ada@example.com"}
    )


def test_the_person_page_has_the_whole_name_attributes_methods_and_the_second_factor(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(presence)
    presence.login("bob", name="Bob")
    shown = said(look_for(app, "ada"))
    assert LONG.strip() in shown
    for words in ("Password, One-time code · With a second factor", "**plan**", "pro", "`**seats**`", "7"):
        assert words in shown.splitlines(), words
    assert texts.METHOD_FILTER not in said(look_for(app, "bob")), "the site did not say"
    monkeypatch.setattr(session_facts, "MAX_ATTRIBUTES", 1)
    shown = said(look_for(app, "ada"))
    assert texts.and_more(2) in shown


def test_history_has_them_too_and_a_masked_viewer_sees_attributes_with_facets_only(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(presence)
    presence.kick("ada", by="alex", reason="test")
    shown = said(tick(history(app), "ended", 0)).splitlines()
    assert {"Password, One-time code · With a second factor", "pro", "ada@example.com"} <= set(shown)
    monkeypatch.setenv("PRESENCE_DASHBOARD_ROLE", "viewer")
    monkeypatch.setenv("PRESENCE_DASHBOARD_MASK", "name")
    app.run()
    shown = said(tick(app, "ended", 0)).splitlines()
    assert not {"pro", "ada@example.com"} & set(shown)
