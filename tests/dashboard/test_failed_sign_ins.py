"""Failed sign-ins on Person, History and Live without a browser, on a real server."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from presence_core import LoginRefused, Presence, Settings
from presence_core.schema.failures import FAILURES
from presence_dashboard import texts
from presence_dashboard.roles import HIDDEN
from presence_dashboard.texts import english
from tests.dashboard.conftest import pick_row, table
from tests.support.place_file import write_place_file
from tests.support.servers import Server

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:120.0) Gecko/20100101 Firefox/120.0"
SAFARI = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_1 like Mac OS X) AppleWebKit/605.1.15 Version/17.1 Mobile Safari/604.1"


def fail(presence: Presence) -> None:
    """Three wrong passwords of ada; one of a name that no one has; and one that a block refuses."""
    presence.login("ada", name="Ada King", aliases=["ada@example.org"])
    for _ in range(3):
        presence.login_failed("ada", why="wrong_password", ip="192.0.2.7", app="web")
    presence.login_failed("kim@example.org", why="unknown_name", ip="198.51.100.7")
    presence.block("bob", by="sue", reason="test")
    with pytest.raises(LoginRefused):
        presence.login("bob", ip="198.51.100.8")


def shown(app: AppTest) -> str:
    return "\n".join([*(text.value for text in app.markdown), *(text.value for text in app.text)])


def history(app: AppTest, **address: str) -> AppTest:
    for field, value in {"view": "failed", **address}.items():
        app.query_params[field] = value
    app.switch_page("views/history/history.py").run()
    assert not app.exception
    return app


def person(app: AppTest, text: str) -> AppTest:
    app.query_params["q"] = text
    app.switch_page("views/person/person.py").run()
    assert not app.exception
    return app


def test_the_timeline_of_a_person_says_how_often_and_why(app: AppTest, presence: Presence) -> None:
    fail(presence)
    presence.login_failed("ADA@example.org", why="locked")
    page = shown(person(app, "ada"))
    assert texts.failed("wrong_password", 3, "3") in page
    assert texts.failed("locked", 1, "1") in page
    assert "192.0.2.7" in page
    app.pills(key="kinds").set_value("failed").run()
    assert texts.happened_login("") not in shown(app)
    assert texts.failed("wrong_password", 3, "3") in shown(app)


def test_a_person_who_never_got_in_is_found_by_uid_and_by_what_they_typed(app: AppTest, presence: Presence) -> None:
    fail(presence)
    assert texts.failed("blocked", 1, "1") in shown(person(app, "bob"))
    app.text_input(key="q").set_value("Kim@Example.org").run()
    assert texts.FAILED_NO_ONE in shown(app)
    assert texts.failed("unknown_name", 1, "1") in shown(app)
    app.text_input(key="q").set_value("lee@example.org").run()
    assert texts.FAILED_NO_ONE not in shown(app)


def test_the_history_lists_them_by_person_reason_and_address(app: AppTest, presence: Presence) -> None:
    fail(presence)
    history(app)
    rows = table(app)
    assert dict(zip(rows.column("uid"), rows.column("times"), strict=True)) == {
        "bob": "1", "(an email address)": "1", "ada": "3",
    }  # fmt: skip
    pick_row(app, rows.column("uid").index("ada"))
    assert "web" in shown(app)
    app.text_input(key="ip").set_value("198.51.100.0/24").run()
    assert sorted(map(str, table(app).column("uid"))) == ["(an email address)", "bob"]
    app.text_input(key="ip").set_value("198.51").run()
    assert [warning.value for warning in app.warning] == [texts.FAILED_IP_MALFORMED]
    app.text_input(key="ip").set_value("").run()
    app.text_input(key="person").set_value("kim@example.org").run()
    assert table(app).column("why") == ["Unknown name"]


def test_the_live_page_counts_and_splits_them(app: AppTest, presence: Presence) -> None:
    fail(presence)
    app.query_params["split"] = "failed"
    app.switch_page("views/live/live.py").run()
    assert not app.exception
    assert texts.LIVE_FAILED in [metric.label for metric in app.metric]


def test_beyond_ten_addresses_the_place_is_that_of_the_latest(
    app: AppTest, presence: Presence, server: Server, tmp_path: Path
) -> None:
    places = str(write_place_file(tmp_path / "places.mmdb"))
    with Presence.from_url(server.url, Settings(place_file=places)) as placed:
        for address in (*(f"203.0.113.{last}" for last in range(12)), "192.0.2.7"):
            placed.login_failed("ada", why="locked", is_uid=True, ip=address)
    page = shown(person(app, "ada"))
    assert texts.failed("locked", 3, "3") in page
    assert page.count(texts.failed_last_from("Lyon, FR")) == 1


def test_every_reason_has_a_text() -> None:
    assert english.FAILURE_WHYS.keys() == {"", *(failure.why for failure in FAILURES)}
    assert HIDDEN not in english.FAILURE_WHYS.values()


def test_the_timeline_of_a_person_says_where_a_session_was_used_from(app: AppTest, presence: Presence) -> None:
    token = presence.login("ada", ip="192.0.2.7", user_agent=FIREFOX).token
    assert presence.validate(token, ip="198.51.100.7", user_agent=SAFARI).moved
    page = shown(person(app, "ada"))
    assert page.count("Used from elsewhere:") == 1
    assert "192.0.0.0/16" in page
    assert "198.51.0.0/16" in page


def test_who_must_not_see_addresses_sees_none_and_no_place_or_rule(
    app: AppTest, presence: Presence, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRESENCE_DASHBOARD_ROLE", "viewer")
    monkeypatch.setenv("PRESENCE_DASHBOARD_MASK", "name,ip")
    places = str(write_place_file(tmp_path / "places.mmdb"))
    with Presence.from_url(server.url, Settings(place_file=places, record_address="none")) as placed:
        placed.login_failed("kim", why="wrong_password", is_uid=True, ip="192.0.2.7")
    presence.add_block_rule(network="198.51.100.0/24", by="sue", reason="test", expected=0)
    with pytest.raises(LoginRefused):
        presence.login("kim", ip="198.51.100.7")
    history(app)
    assert set(table(app).column("ip")) == {HIDDEN}
    assert set(table(app).column("rule")) == {"", HIDDEN}
    for text in (shown(app), shown(person(app, "kim"))):
        assert not [secret for secret in ("Lyon", "198.51.100", "192.0.2") if secret in text]


def test_who_must_not_see_names_learns_of_no_typed_name_whether_it_failed(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRESENCE_DASHBOARD_ROLE", "viewer")
    monkeypatch.setenv("PRESENCE_DASHBOARD_MASK", "name,ip")
    fail(presence)
    presence.login_failed("ada@example.org", why="locked")
    for typed in ("kim@example.org", "ada@example.org"):
        page = shown(person(app, typed))
        assert texts.FAILED_NO_ONE not in page
        assert texts.FAILURE_WHYS["locked"] not in page
    history(app)
    for typed in ("kim@example.org", "ada@example.org"):
        app.text_input(key="person").set_value(typed).run()
        assert texts.HISTORY_NO_MATCH in shown(app)
    app.text_input(key="person").set_value("ada").run()
    assert table(app).column("uid") == ["ada"]
