"""Saved views of the list of sessions, on a real server."""

from __future__ import annotations

import json

import pytest
from streamlit.testing.v1 import AppTest

from presence_core import Presence
from presence_dashboard import texts
from presence_dashboard.data.saved_views import view_text
from tests.dashboard.conftest import tables, toasts, uids

ACTOR = "local operator"


@pytest.fixture
def crowd(presence: Presence) -> None:
    presence.login("u1", name="Dana Novak", device="iPhone")
    presence.login("u2", name="Dana Other", device="Mac")
    presence.login("u3", name="Eve", device="iPhone")


def open_menu(app: AppTest) -> AppTest:
    app.session_state["menu-views"] = True
    return app.run()


def save(app: AppTest, name: str, *, shared: bool = False) -> AppTest:
    open_menu(app).text_input(key="view-name").set_value(name)
    if shared:
        app.checkbox(key="view-share").set_value(True)
    return next(button for button in app.button if button.label == texts.VIEW_SAVE).click().run()


def keys(app: AppTest) -> list[str]:
    return [button.key or "" for button in app.button if (button.key or "").startswith("view-")]


def said(app: AppTest) -> str:
    return "\n".join(str(element.value) for element in (*app.markdown, *app.caption, *app.subheader))


def test_a_view_keeps_filter_and_columns_and_opens_them_again(app: AppTest, crowd: None, presence: Presence) -> None:
    app.query_params.update({"q": "dana", "device": "iPhone", "sort": "last_seen"})
    app.run()
    app.multiselect(key="columns").set_value(["uid", "ip"]).run()
    save(app, "Danas on iPhone")
    assert texts.view_saved("**Danas on iPhone**", False) in toasts(app)
    app.button(key="clear").click().run()
    app.multiselect(key="columns").set_value(["uid", "browser"]).run()
    assert len(uids(app)) == 3
    open_menu(app).button(key="view-own-Danas on iPhone").click().run()
    assert uids(app) == ["u1"]
    assert not app.session_state["menu-views"], "the menu does not cover the list"
    assert app.text_input(key="q").value == "dana"
    assert dict(app.query_params)["device"] == "iPhone"
    assert dict(app.query_params)["sort"] == "last_seen"
    assert app.multiselect(key="columns").value == ["uid", "ip"]
    assert presence.saved_items("view") == [], "it is not shared"


def test_a_link_opens_a_view_by_its_name(app: AppTest, crowd: None, presence: Presence) -> None:
    presence.save_item(
        "view", "iPhones", view_text({"device": "iPhone"}, ["uid", "attr.gone", "gone"]), by="sam", shared=True
    )
    app.query_params["view"] = "iPhones"
    app.run()
    assert set(uids(app)) == {"u1", "u3"}
    assert set(app.query_params) == {"device"}
    assert app.multiselect(key="columns").value == ["uid"], "columns that do not exist are left out"


@pytest.mark.parametrize(
    "stored", [None, "{", "[]", '{"query": 5, "columns": []}', '{"query": {"q": 5}, "columns": []}']
)
def test_an_unknown_or_damaged_view_says_so_and_lists_no_one(
    app: AppTest, crowd: None, presence: Presence, stored: str | None
) -> None:
    if stored is not None:
        presence.save_item("view", "Lost", stored, by=ACTOR)
    app.query_params["view"] = "Lost"
    app.run()
    assert [header.value for header in app.subheader] == [texts.LINK_TITLE]
    assert texts.view_unknown("`Lost`") in said(app)
    assert not tables(app)
    app.button(key="link-show-all").click().run()
    assert len(uids(app)) == 3
    if stored is not None:
        assert open_menu(app).button(key="view-own-Lost").disabled
        app.button(key="delete-own-Lost").click().run()
        assert presence.saved_items("view", owner=ACTOR) == []


def test_a_view_with_a_filter_that_does_not_work_says_so(app: AppTest, crowd: None, presence: Presence) -> None:
    presence.save_item("view", "Old", view_text({"colour": "red"}, []), by=ACTOR)
    open_menu(app).button(key="view-own-Old").click().run()
    assert texts.link_unknown("`colour`") in said(app)
    assert not tables(app)


def test_own_views_are_listed_by_their_last_use_and_shared_ones_after_them(
    app: AppTest, crowd: None, presence: Presence
) -> None:
    presence.save_item("view", "Team", view_text({}, []), by="sam", shared=True)
    for name in ("A", "B"):
        presence.save_item("view", name, view_text({"device": "iPhone"}, []), by=ACTOR)
    open_menu(app).button(key="view-own-A").click().run()
    assert keys(open_menu(app)) == ["view-own-A", "view-own-B", "view-shared-Team"]


def test_a_view_is_shared_renamed_and_deleted_and_the_audit_has_it(
    app: AppTest, crowd: None, presence: Presence
) -> None:
    app.query_params["device"] = "Mac"
    app.run()
    save(app, "Macs", shared=True)
    [shared] = presence.saved_items("view")
    assert json.loads(shared.text)["query"] == {"device": "Mac"}
    open_menu(app).button(key="edit-shared-Macs").click().run()
    app.text_input(key="view-new-name").set_value("All Macs")
    next(button for button in app.button if button.label == texts.VIEW_RENAME).click().run()
    assert [item.name for item in presence.saved_items("view")] == ["All Macs"]
    open_menu(app).button(key="delete-shared-All Macs").click().run()
    assert presence.saved_items("view") == []
    assert [entry.outcome for entry in presence.audit()] == [
        'view "All Macs" removed for everyone',
        'view "All Macs" saved for everyone, was "Macs"',
        'view "Macs" saved for everyone',
    ]


def test_a_viewer_keeps_own_views_and_a_masked_one_sees_none_that_may_name_a_person(
    app: AppTest, crowd: None, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRESENCE_DASHBOARD_ROLE", "viewer")
    monkeypatch.setenv("PRESENCE_DASHBOARD_MASK", "name")
    presence.save_item("view", "Danas", view_text({"q": "dana"}, []), by="sam", shared=True)
    presence.save_item("view", "Danas iPhone", view_text({"device": "Dana's iPhone"}, []), by="sam", shared=True)
    presence.save_item("view", "Shop", view_text({"app": "shop"}, []), by="sam", shared=True)
    assert keys(open_menu(app)) == ["view-shared-Shop"]
    assert not app.checkbox
    assert not any((button.key or "").startswith("delete-shared") for button in app.button)
    save(app, "Mine")
    assert keys(open_menu(app)) == ["view-own-Mine", "view-shared-Shop"]
