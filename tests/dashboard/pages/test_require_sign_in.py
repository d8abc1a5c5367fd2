"""Staff require a new sign-in on the Person page, without a browser, on a real server."""

from __future__ import annotations

from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from presence_core import Login, OutcomeUnknown, Presence
from presence_dashboard import texts
from tests.dashboard.conftest import confirm, toasts
from tests.dashboard.pages.test_person_page import cards_of, keys, look_again, look_for, said

BY_ALEX = {"by": "alex", "reason": "odd login"}


def open_dialog(app: AppTest, login: Login | None = None) -> AppTest:
    """Press the button of a card, or that for all sessions."""
    return app.button(key=f"sign-in-{login.session.session_id if login else 'all'}").click().run()


def to_ask(app: AppTest) -> set[str]:
    """Ids of the sessions whose card has the button."""
    return {key.removeprefix("sign-in-") for key in keys(app) if key.startswith("sign-in-")} - {"all"}


def codes(presence: Presence, *logins: Login) -> list[str]:
    return [presence.validate(login.token).code for login in logins]


def test_a_card_requires_a_new_sign_in_of_its_own_session(app: AppTest, presence: Presence) -> None:
    logins = [presence.login("dana", device=f"Device {number}") for number in range(3)]
    ids = {login.session.session_id for login in logins}
    asked = logins[1].session.session_id
    look_for(app, "dana")
    assert to_ask(app) == ids
    open_dialog(app, logins[1])
    assert "Device 1" in [text.value for text in app.text]
    assert not [box for box in app.selectbox if box.label == texts.BLOCK_FOR]
    next(area for area in app.text_area if area.label == texts.MESSAGE).set_value("Is it you?")
    confirm(app, "Odd login")
    assert codes(presence, *logins) == ["live", "sign_in_required", "live"]
    assert presence.validate(logins[1].token).message == "Is it you?"
    assert texts.sign_in_required(1, "**dana** (**Device 1**)") in toasts(app)
    assert (set(cards_of(app)), to_ask(app)) == (ids, ids - {asked})
    assert f"{texts.FLAG_SIGN_IN}] (by **local operator**, " in said(app)
    assert texts.happened_staff("require_sign_in", "**local operator**") in said(app)
    assert "Reason: Odd login\nMessage: Is it you?\nOutcome: 1 session to sign in again" in said(app)

    presence.reauthenticated(logins[1].token, methods=["pwd"])
    app.button(key="refresh-person").click().run()
    assert to_ask(app) == ids
    assert texts.FLAG_SIGN_IN not in said(app)


def test_all_sessions_are_asked_but_those_that_wait_already_and_support_sessions(
    app: AppTest, presence: Presence
) -> None:
    waiting, first = presence.login("dana"), presence.login("dana")
    support = presence.login("dana", on_behalf_by="sam", reason="ticket 7")
    presence.require_sign_in("dana", waiting.session.session_id, **BY_ALEX)
    look_for(app, "dana")
    assert to_ask(app) == {first.session.session_id}
    open_dialog(app)
    late = presence.login("dana")
    confirm(app)
    demanded = "sign_in_required"
    assert codes(presence, waiting, first, late, support) == [demanded, demanded, demanded, "live"]
    assert texts.sign_in_required(2, "**dana**") in toasts(app)
    assert f"{texts.FLAG_SIGN_IN}] (by **alex**, " in said(app)
    assert said(app).count(f"{texts.FLAG_SIGN_IN}] (by **local operator**, ") == 2
    assert to_ask(app) == set()
    assert app.button(key="sign-in-all").disabled


def test_the_demand_of_a_colleague_is_followed_and_its_author_may_be_unknown(app: AppTest, presence: Presence) -> None:
    presence.login("dana")
    look_for(app, "dana")
    presence.require_sign_in("dana", **BY_ALEX)
    look_again("dana")
    app.run()
    assert f"{texts.FLAG_SIGN_IN}] (by **alex**, " in said(app)
    assert f"{texts.act('require_sign_in')} by **alex**: `1 session to sign in again`" in toasts(app)
    app.session_state["person-state"].entries.clear()
    app.run()
    assert f"{texts.FLAG_SIGN_IN}] (since " in said(app)


def test_a_viewer_sees_the_demand_and_no_button_and_a_lost_role_is_refused(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (presence.login("dana", name="Dana Novak") for _ in range(2))
    presence.require_sign_in("dana", first.session.session_id, **BY_ALEX)
    look_for(app, "dana")
    open_dialog(app, second)
    monkeypatch.setenv("PRESENCE_DASHBOARD_ROLE", "viewer")
    monkeypatch.setenv("PRESENCE_DASHBOARD_MASK", "name,ip")
    confirm(app)
    assert presence.validate(second.token)
    [denied] = [entry for entry in presence.audit(uid="dana").items if entry.action == "denied"]
    assert denied.outcome == "require_sign_in refused once"
    app.run()
    assert f"{texts.FLAG_SIGN_IN}] (by **alex**, " in said(app)
    assert "Novak" not in said(app)
    assert (to_ask(app), "sign-in-all" in keys(app)) == (set(), False)


@pytest.mark.parametrize("is_asked", [True, False])
def test_a_demand_that_no_replica_has_confirmed_says_so(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch, is_asked: bool
) -> None:
    if is_asked:
        monkeypatch.setenv("PRESENCE_CONFIRM_REPLICAS", "1")
        monkeypatch.setenv("PRESENCE_CONFIRM_TIMEOUT", "20")
        monkeypatch.setenv("PRESENCE_CONFIRM_HOLD", "0")
    else:
        monkeypatch.setattr(Presence, "may_fail_over", True)
    login = presence.login("dana")
    confirm(open_dialog(look_for(app, "dana")))
    assert codes(presence, login) == ["sign_in_required"]
    assert [words in toasts(app) for words in (texts.UNCONFIRMED, texts.NO_REPLICA_ASKED)] == [is_asked, not is_asked]


def test_a_session_that_has_just_ended_says_how(app: AppTest, presence: Presence) -> None:
    login, other = presence.login("dana", device="Mac"), presence.login("dana")
    open_dialog(look_for(app, "dana"), login)
    presence.kick("dana", login.session.session_id, by="alex", reason="test")
    confirm(app)
    assert "Already ended: **dana** (**Mac**) – kicked by **alex** at" in toasts(app)
    open_dialog(app)
    presence.logout("dana", other.session.session_id)
    confirm(app)
    assert texts.SIGN_IN_NONE_LEFT in toasts(app)


def test_a_phrase_for_a_new_sign_in_says_what_then_holds(app: AppTest, presence: Presence) -> None:
    presence.login("dana")
    open_dialog(look_for(app, "dana"))
    app.button_group(key="phrase-1").set_value("Lost device").run()
    assert app.text_area(key="reason-1").value == texts.PHRASES["Lost device"][0]
    assert app.text_area(key="message-1").value == texts.PHRASES_SIGN_IN["Lost device"]


def test_a_lost_reply_is_reported(app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch) -> None:
    presence.login("dana")
    open_dialog(look_for(app, "dana"))

    def unanswered(*_: Any, **__: Any) -> None:
        raise OutcomeUnknown("no reply")

    monkeypatch.setattr(Presence, "require_sign_in", unanswered)
    confirm(app)
    assert texts.action_failed(texts.ERROR_UNKNOWN) in toasts(app)
