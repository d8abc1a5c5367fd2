"""Remarks on a person: on their page, counted in the list, and in the report."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from presence_core import Presence, SessionFilter
from presence_dashboard import access, texts
from presence_dashboard.actions import remarks
from presence_dashboard.roles import Actor, Denied
from tests.dashboard.conftest import age_cache, click, open_page, table, toasts
from tests.dashboard.sessions_page.test_search import VIEWER, act_as


def html_of(app: AppTest) -> str:
    assert not app.exception
    return " ".join(element.proto.body for element in app.get("html"))


def shown(app: AppTest) -> str:
    return " ".join(element.value for kind in (app.text, app.caption) for element in kind)


def leave(app: AppTest, text: str) -> AppTest:
    app.session_state["menu-remark"] = True
    app.run()
    next(area for area in app.text_area if area.key == "remark-text").set_value(text).run()
    return click(app, "remark-save")


def test_a_remark_is_left_read_and_removed_on_the_page_of_a_person(app: AppTest, presence: Presence) -> None:
    presence.login("u1", name="Ada")
    app = open_page("person", q="u1")
    leave(app, "  ")
    assert texts.REMARK_MISSING in toasts(app)
    leave(app, "Calls about refunds :red[x]")
    [remark] = presence.remarks("u1")
    assert remark.text == "Calls about refunds :red[x]"
    assert "Calls about refunds :red[x]" in shown(app), "as it was typed"
    assert remark.by in shown(app)
    assert texts.act("add_remark") in html_of(app) + str([element.value for element in app.markdown])
    click(app, f"remove-{remark.id}")
    assert presence.remarks("u1") == []
    assert "refunds" not in shown(app)


def test_a_role_without_the_right_leaves_none_and_one_that_sees_no_names_reads_none(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    presence.login("u1", name="Ada")
    presence.add_remark("u1", "Calls about refunds", by="dana")
    act_as(monkeypatch, Actor("vera", "viewer"))
    app = open_page("person", q="u1")
    assert "refunds" in shown(app)
    assert not [button for button in app.button if (button.key or "").startswith("remove-")]
    act_as(monkeypatch, VIEWER)
    app = open_page("person", q="u1")
    assert "refunds" not in shown(app)
    report = html_of(open_page("report"))
    assert "refunds" not in report


def test_an_action_checks_the_right(app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "_actor", lambda **_: Actor("vera", "viewer"))
    with pytest.raises(Denied):
        remarks.add(presence, "u1", "text")
    assert presence.remarks() == []
    assert [(entry.action, entry.by) for entry in presence.audit()] == [("denied", "vera")]


def test_the_list_counts_the_remarks_on_each_person(app: AppTest, presence: Presence) -> None:
    presence.login("u1", name="Ada")
    presence.login("u2", name="Bea")
    assert "remarks" not in table(app.run()).columns
    for text in ("first", "second"):
        presence.add_remark("u1", text, by="dana")
    app = open_page()
    found = dict(zip(table(app).column("uid"), table(app).column("remarks"), strict=True))
    assert found == {"u1": "2", "u2": ""}


def test_the_report_has_what_is_open_for_the_next_shift(app: AppTest, presence: Presence) -> None:
    app = open_page("report")
    assert texts.OPEN_ITEMS_NONE in [element.value for element in app.caption]
    presence.login("u1", name="Ada Lovelace", device="tv")
    presence.add_remark("u1", "Calls about refunds", by="dana")
    presence.block("u2", by="dana", reason="spam", duration=3600, ticket="T-7")
    presence.block("u3", by="dana", reason="ends next week", duration=7 * 86_400)
    presence.block("u4", by="dana", reason="has no end")
    job = presence.start_kick(SessionFilter(device="tv"), by="dana", reason="old app", expected=1, delay=600)
    presence.ask_approval(by="sam", reason="a wave of logins", filter=SessionFilter(device="tv"), sessions=1)
    age_cache()
    page = html_of(open_page("report"))
    for text in ("Calls about refunds", "Ada Lovelace", "spam", "T-7", "old app", "a wave of logins"):
        assert text in page
    assert texts.blocks_that_end(1, 8, True) in page
    assert texts.jobs_under_way(1) in page
    assert texts.requests_that_wait(1) in page
    presence.cancel_job(job.id, by="dana")
