"""Staff change timeouts on the Person page, without a browser, on a real server."""

from __future__ import annotations

import time

import pytest
from streamlit.testing.v1 import AppTest

from presence_core import Login, OutcomeUnknown, Presence, Session
from presence_dashboard import texts
from presence_dashboard.components.session_facts import time_of_day
from tests.dashboard.conftest import cells, confirm, toasts
from tests.dashboard.pages.test_person_page import keys, look_again, look_for, said


def open_dialog(app: AppTest, login: Login | None = None) -> AppTest:
    """Press the button of a card, or that for all sessions."""
    return app.button(key=f"timeouts-{login.session.session_id if login else 'all'}").click().run()


def choose(app: AppTest, idle: int | None = None, absolute: int | None = None, dialog: int = 1) -> AppTest:
    for name, seconds in (("idle", idle), ("absolute", absolute)):
        if seconds is not None:
            app.selectbox(key=f"{name}-{dialog}").select(str(seconds)).run()
    return app


def offered(app: AppTest, name: str) -> list[str]:
    return list(app.selectbox(key=f"{name}-1").options)


def stored(presence: Presence, login: Login) -> tuple[int, int]:
    session = presence.get(login.session.uid, login.session.session_id)
    assert session is not None
    return session.idle_timeout, session.absolute_timeout


def as_support(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRESENCE_DASHBOARD_ROLE", "support")


def test_a_card_changes_the_timeouts_of_its_own_session_and_shows_before_what_that_means(
    app: AppTest, presence: Presence
) -> None:
    other, login = presence.login("dana", device="Mac"), presence.login("dana", device="Phone")
    open_dialog(look_for(app, "dana"), login)
    assert (cells(app, texts.LABEL_DEVICE), texts.TIMEOUTS_ONLY_SHORTER in said(app)) == (["Phone"], False)
    assert cells(app, texts.TIMEOUTS_NEW_END) == cells(app, texts.LABEL_EXPIRES)
    choose(app, idle=300, absolute=604_800)
    predicted = cells(app, texts.TIMEOUTS_NEW_END)
    confirm(app, "Shared device")
    assert (stored(presence, login), stored(presence, other)) == ((300, 604_800), (1800, 86_400))
    changed = presence.get("dana", login.session.session_id)
    assert isinstance(changed, Session)
    assert predicted == [time_of_day(changed.expires_at)]
    assert texts.timeouts_changed(1, "**dana** (**Phone**)") in toasts(app)
    assert texts.happened_staff("change_timeouts", "**local operator**") in said(app)
    assert "Outcome: 1 session, idle timeout 300 s, absolute timeout 604800 s" in said(app)


def test_all_sessions_of_a_person_change_also_those_that_begin_before_it_is_confirmed(
    app: AppTest, presence: Presence
) -> None:
    first = presence.login("dana", idle_timeout=60)
    presence.login("dana")
    choose(open_dialog(look_for(app, "dana")), idle=900)
    assert offered(app, "idle")[0] == texts.timeout_unchanged(texts.timeout_range("60 s", "30 min"))
    late = presence.login("dana")
    confirm(app)
    assert {stored(presence, login) for login in (first, late)} == {(900, 86_400)}
    assert texts.timeouts_changed(3, "**dana**") in toasts(app)


def test_a_session_that_is_older_than_its_new_timeout_ends_and_the_dialog_says_so_before(
    app: AppTest, presence: Presence
) -> None:
    presence.internal.context.now = str(round(time.time() - 1200) * 1000)
    presence.login("dana")
    presence.internal.context.now = ""
    choose(open_dialog(look_for(app, "dana")), idle=900)
    assert cells(app, texts.TIMEOUTS_NEW_END) == [texts.TIMEOUTS_END_NOW]
    confirm(app)
    assert presence.sessions("dana") == []


def test_support_staff_can_only_shorten_and_the_dialog_offers_nothing_longer(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_support(monkeypatch)
    login = presence.login("dana")
    open_dialog(look_for(app, "dana"), login)
    assert texts.TIMEOUTS_ONLY_SHORTER in said(app)
    assert offered(app, "idle") == [texts.timeout_unchanged("30 min"), "5 min", "15 min"]
    assert offered(app, "absolute")[1:] == ["5 min", "15 min", "30 min", "1 h", "8 h"]
    presence.change_timeouts("dana", idle_timeout=60, by="alex", reason="test")
    confirm(choose(app, idle=300))
    assert stored(presence, login) == (60, 86_400), "a colleague has made it shorter meanwhile"
    [denied] = [entry for entry in presence.audit(uid="dana").items if entry.action == "denied"]
    assert denied.outcome == "change_timeouts refused once"
    confirm(choose(open_dialog(look_for(app, "dana")), absolute=3600, dialog=2))
    assert stored(presence, login) == (60, 3600)


def test_a_role_that_was_lost_is_refused_and_a_viewer_has_no_button(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    login = presence.login("dana")
    choose(open_dialog(look_for(app, "dana")), idle=300)
    monkeypatch.setenv("PRESENCE_DASHBOARD_ROLE", "viewer")
    confirm(app)
    assert stored(presence, login) == (1800, 86_400)
    app.run()
    assert not [key for key in keys(app) if key.startswith("timeouts-")]


def test_the_dialog_says_what_is_missing_or_wrong(app: AppTest, presence: Presence) -> None:
    login = presence.login("dana")
    confirm(open_dialog(look_for(app, "dana")))
    assert texts.TIMEOUTS_MISSING in [warning.value for warning in app.warning]
    confirm(choose(app, idle=3600, absolute=300))
    sentence = texts.ERROR_FIELD["idle_timeout"][""]
    assert texts.action_failed(sentence) in [warning.value for warning in app.warning]
    assert stored(presence, login) == (1800, 86_400)


def test_a_session_that_has_just_ended_says_how_and_a_lost_reply_is_reported(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    login = presence.login("dana", device="Mac")
    choose(open_dialog(look_for(app, "dana"), login), idle=300)
    presence.kick("dana", login.session.session_id, by="alex", reason="test")
    confirm(app)
    assert "Already ended: **dana** (**Mac**) – kicked by **alex** at" in toasts(app)
    presence.login("dana")
    look_again("dana")
    app.run()
    choose(open_dialog(app), idle=300, dialog=2)

    def unanswered(*_: object, **__: object) -> None:
        raise OutcomeUnknown("no reply")

    monkeypatch.setattr(Presence, "change_timeouts", unanswered)
    confirm(app)
    assert texts.action_failed(texts.ERROR_UNKNOWN) in toasts(app)
