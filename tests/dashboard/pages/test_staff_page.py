"""The Staff page without a browser, on a real server."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from presence_core import Presence
from presence_dashboard import texts
from tests.dashboard.conftest import table, tick_member, toasts


@pytest.fixture
def team(app: AppTest, presence: Presence, sign_ins: Presence) -> AppTest:
    presence.set_staff("dana@example.com", "admin", by="setup")
    presence.set_staff("alex", "support", by="dana@example.com")
    app.switch_page("views/staff/staff.py").run()
    assert not app.exception
    return app


def members(app: AppTest) -> list[tuple[str, str, str]]:
    return list(zip(*(table(app).column(name) for name in ("name", "role", "signed_in")), strict=True))


def test_everybody_with_a_role_is_listed_and_whether_they_are_signed_in(team: AppTest, sign_ins: Presence) -> None:
    sign_ins.login("alex", app="dashboard", ip="192.0.2.7")
    team.button(key="refresh-list").click().run()
    assert members(team) == [("alex", "support", texts.STAFF_YES), ("dana@example.com", "admin", texts.STAFF_NO)]
    tick_member(team, 0)
    shown = [text.value for text in team.text]
    assert texts.staff_role("support") in shown
    assert any(text.startswith("192.0.2.7 · last active") for text in shown)


def test_a_role_is_changed_and_that_is_written_down(team: AppTest, presence: Presence) -> None:
    tick_member(team, 0)
    assert team.button(key="set-role").disabled
    team.selectbox(key="role-alex-support").select("viewer").run()
    team.button(key="set-role").click().run()
    assert texts.staff_is_now("**alex**", "viewer") in toasts(team)
    assert members(team)[0][1] == "viewer"
    assert "alex is now viewer, was support" in [entry.outcome for entry in presence.audit(by="local operator")]


def test_the_last_admin_is_neither_demoted_nor_removed(team: AppTest, presence: Presence) -> None:
    tick_member(team, 1)
    team.selectbox(key="role-dana@example.com-admin").select("stats").run()
    team.button(key="set-role").click().run()
    assert texts.ERROR_FIELD["name"]["last_admin"] in toasts(team)
    tick_member(team, 1)
    team.button(key="remove").click().run()
    assert texts.ERROR_FIELD["name"]["last_admin"] in toasts(team)
    assert [(member.name, member.role) for member in presence.staff()] == [
        ("alex", "support"),
        ("dana@example.com", "admin"),
    ]


def test_who_is_removed_leaves_the_list_and_is_found_among_the_removed(team: AppTest, presence: Presence) -> None:
    tick_member(team, 0)
    team.button(key="remove").click().run()
    assert texts.staff_removed("**alex**") in toasts(team)
    assert [name for name, *_ in members(team)] == ["dana@example.com"]
    team.toggle(key="staff-removed").set_value(True).run()
    assert members(team)[0][:2] == ("alex", texts.STAFF_NO_ROLE)


def test_signing_out_a_member_of_staff_ends_their_sign_ins_and_is_logged(
    team: AppTest, presence: Presence, sign_ins: Presence
) -> None:
    logins = [sign_ins.login("alex"), sign_ins.login("dana@example.com")]
    team.button(key="refresh-list").click().run()
    tick_member(team, 0)
    team.button(key="sign-out").click().run()
    assert texts.staff_signed_out("**alex**", 1) in toasts(team)
    assert [bool(sign_ins.validate(login.token)) for login in logins] == [False, True]
    assert "alex was signed out, 1 sign-in ended" in [entry.outcome for entry in presence.audit()]


def test_the_search_finds_a_name_as_it_is_stored(team: AppTest, presence: Presence) -> None:
    presence.set_staff("Weiß@example.com", "viewer", by="test")
    team.text_input(key="staff-search").set_value("WEIß").run()
    assert [name for name, *_ in members(team)] == ["weiß@example.com"]


def test_a_demoted_admin_changes_no_role(team: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch) -> None:
    tick_member(team, 0)
    team.selectbox(key="role-alex-support").select("admin").run()
    monkeypatch.setenv("PRESENCE_DASHBOARD_ROLE", "support")
    team.button(key="set-role").click().run()
    member = presence.staff_member("alex")
    assert member is not None
    assert member.role == "support"
    assert [header.value for header in team.subheader] == [texts.NO_PERMISSION_TITLE]
    [denied] = [entry for entry in presence.audit() if entry.action == "denied"]
    assert denied.outcome == "set staff role refused once"


def test_without_records_the_page_says_how_the_first_one_is_made(app: AppTest, sign_ins: Presence) -> None:
    app.switch_page("views/staff/staff.py").run()
    assert [header.value for header in app.subheader] == [texts.STAFF_EMPTY_TITLE]
    app.text_input(key="staff-search").set_value("x").run()
    assert texts.STAFF_NO_MATCH in [text.value for text in app.markdown]
