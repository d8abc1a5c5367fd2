"""What pages show of a session: its attributes and how the visitor signed in."""

from __future__ import annotations

from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from streamlit.testing.v1 import AppTest

from presence_core import Presence
from presence_dashboard import texts
from presence_dashboard.components import session_facts
from tests.dashboard.conftest import pick_row
from tests.dashboard.pages.test_history_page import history
from tests.dashboard.pages.test_person_page import look_for, said
from tests.support.place_file import TOKYO, city, write_place_file

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


def test_the_time_of_the_customer_is_next_to_ours_where_the_place_file_names_a_time_zone(
    app: AppTest, presence: Presence, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    networks = {"192.0.2.0/24": TOKYO, "203.0.113.0/24": city("XX", "Atlantis", (0, 0), time_zone="Atlantis/Deep")}
    monkeypatch.setenv("PRESENCE_PLACE_FILE", str(write_place_file(tmp_path / "places.mmdb", networks)))
    session = presence.login("ada", name="Ada", ip="192.0.2.7").session
    presence.login("bob", name="Bob", ip="203.0.113.7")  # this machine does not know that zone
    there = f"{session.login_at.astimezone(ZoneInfo('Asia/Tokyo')):%H:%M}"

    def page() -> str:
        return "\n".join([said(app), *(element.proto.body for element in app.get("html"))])

    look_for(app, "ada")
    assert "Asia/Tokyo (UTC+9)" in page().splitlines()
    assert f"{there} there</small>" in page()
    assert "Time zone: Asia/Tokyo (UTC+9), now " in page()
    app.button(key=f"kick-{session.session_id}").click().run()
    assert f"{there} there" in said(app)
    assert "Asia/Tokyo (UTC+9), now " in said(app)
    next(button for button in app.button if button.label == texts.CANCEL).click().run()
    look_for(app, "bob")
    assert texts.LABEL_TIME_ZONE not in page()
    presence.kick("ada", by="alex", reason="test")
    assert "Asia/Tokyo (UTC+9)" in said(pick_row(history(app), 0)).splitlines()
    assert f"{there} there</small>" in page()
    monkeypatch.setenv("PRESENCE_DASHBOARD_ROLE", "viewer")
    monkeypatch.setenv("PRESENCE_DASHBOARD_MASK", "ip")
    app.run()
    pick_row(app, 0)
    assert "Asia/Tokyo" not in page()
    assert " there" not in page()


def test_history_has_them_too_and_a_masked_viewer_sees_attributes_with_facets_only(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(presence)
    presence.kick("ada", by="alex", reason="test")
    shown = said(pick_row(history(app), 0)).splitlines()
    assert {"Password, One-time code · With a second factor", "pro", "ada@example.com"} <= set(shown)
    monkeypatch.setenv("PRESENCE_DASHBOARD_ROLE", "viewer")
    monkeypatch.setenv("PRESENCE_DASHBOARD_MASK", "name")
    app.run()
    shown = said(pick_row(app, 0)).splitlines()
    assert not {"pro", "ada@example.com"} & set(shown)
