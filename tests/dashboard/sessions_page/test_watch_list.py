"""The watch list on the pages, on a real server."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from presence_core import Presence
from presence_dashboard import texts
from presence_dashboard.components import watch_list
from presence_dashboard.data.store import open_store
from presence_dashboard.data.watch_list import watched
from tests.dashboard.conftest import toasts

ACTOR = "local operator"


def look_again(app: AppTest) -> AppTest:
    """As after a tick: cached data is not used."""
    watched(open_store(), ACTOR, fresh=True)
    return app.run()


def open_person(app: AppTest, uid: str) -> AppTest:
    app.query_params["q"] = uid
    return app.switch_page("views/person/person.py").run()


def signal(app: AppTest) -> str:
    return next(str(element.proto.body) for element in app.get("html") if "presence-arrivals" in element.proto.body)


def test_a_person_is_watched_and_a_login_is_announced_once_on_every_page(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_list, "REDRAW", 0.0)
    login = presence.login("u1", name="Dana Novak")
    open_person(app, "u1")
    app.button(key="watch").click().run()
    assert app.button(key="watch").label == texts.WATCH_STOP
    assert [(item.name, item.text) for item in presence.saved_items("watch", owner=ACTOR)] == [("u1", "Dana Novak")]
    assert not toasts(look_again(app)), "they were online before"
    presence.logout("u1", login.session.session_id)
    assert not toasts(look_again(app))
    presence.login("u1", name="Dana Novak")
    assert texts.watch_arrived("**Dana Novak**", "/person?q=u1") in toasts(look_again(app))
    assert 'data-count="1" data-sound="0"' in signal(app)
    assert not toasts(look_again(app))
    presence.kick("u1", by="alex", reason="test")
    app.switch_page("views/live/live.py")
    look_again(app)
    presence.login("u1", name="Dana Novak")
    assert "Dana Novak" in toasts(look_again(app))


def test_runs_just_after_a_login_draw_its_toast_again_at_the_same_place(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_list, "REDRAW", 3_600.0)
    for uid in ("u1", "u2"):
        presence.save_item("watch", uid, "", by=ACTOR)
    app.run()
    presence.login("u1")
    first = toasts(look_again(app))
    assert first == texts.watch_arrived("**u1**", "/person?q=u1") == toasts(app.run())
    assert 'data-count="1"' in signal(app), "the sound is played once"
    presence.login("u2")
    look_again(app)
    assert [toast.value for toast in app.toast] == [first, texts.watch_arrived("**u2**", "/person?q=u2")]
    app.switch_page("views/live/live.py").run()
    assert toasts(app).startswith(first)
    monkeypatch.setattr(watch_list, "REDRAW", 0.0)
    assert not toasts(app.run())


def test_the_menu_lists_watched_people_and_ends_watching(app: AppTest, presence: Presence) -> None:
    presence.login("u1", name="Dana Novak")
    for uid, called in (("u1", "Dana Novak"), ("u2", "")):
        presence.save_item("watch", uid, called, by=ACTOR)
    app.session_state["menu-watch"] = True
    app.run()
    shown = [element.value for element in app.markdown]
    assert [shown.count(badge) for badge in (texts.WATCH_ONLINE, texts.WATCH_OFFLINE)] == [1, 1]
    app.button(key="unwatch-u2").click().run()
    assert [item.name for item in presence.saved_items("watch", owner=ACTOR)] == ["u1"]
    app.toggle(key="watch-sound").set_value(True).run()
    app.run()
    assert 'data-sound="1"' in signal(app)


def test_a_masked_viewer_is_not_shown_the_name_of_a_watched_person(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRESENCE_DASHBOARD_ROLE", "viewer")
    monkeypatch.setenv("PRESENCE_DASHBOARD_MASK", "name")
    presence.save_item("watch", "u1", "Dana Novak", by=ACTOR)
    app.run()
    presence.login("u1", name="Dana Novak")
    assert texts.watch_arrived("**u1**", "/person?q=u1") in toasts(look_again(app))


def test_watching_costs_one_call_for_all_people(app: AppTest, presence: Presence) -> None:
    for number in range(50):
        presence.save_item("watch", f"u{number}", "", by=ACTOR)
    app.run()
    store = open_store()
    calls: list[int] = []
    many = store.presence.online_among
    store.presence.online_among = lambda uids: (calls.append(len(list(uids))), many(uids))[1]  # type: ignore[func-returns-value, method-assign]
    watched(store, ACTOR, fresh=True)
    assert calls == [50]


def test_a_person_is_put_on_the_list_of_alerts_and_off_it_and_the_audit_says_so(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    presence.login("u1", name="Dana Novak")
    open_person(app, "u1")
    app.button(key="alert-team").click().run()
    assert [(item.name, item.text, item.shared) for item in presence.saved_items("watch")] == [
        ("u1", "Dana Novak", True)
    ]
    assert app.button(key="alert-team").label == texts.ALERT_TEAM_STOP
    app.button(key="alert-team").click().run()
    assert presence.saved_items("watch") == []
    assert [entry.action for entry in presence.audit()] == ["shared_item", "shared_item"]
    monkeypatch.setenv("PRESENCE_DASHBOARD_ROLE", "viewer")
    open_person(app, "u1")
    assert not [button for button in app.button if button.key == "alert-team"]


def test_a_watched_person_is_named_to_the_script_that_shows_notifications(app: AppTest, presence: Presence) -> None:
    presence.save_item("watch", "u1", 'Dana "<b>" Novak', by=ACTOR)
    app.run()
    assert 'data-notify="0" data-text=""' in signal(app)
    presence.login("u1")
    look_again(app)
    assert "Dana &quot;&lt;b&gt;&quot; Novak" in signal(app)
