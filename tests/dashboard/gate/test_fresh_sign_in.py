"""Staff enter their password again before protected actions: dialogs say so when they open, and actions check it."""

from __future__ import annotations

from collections.abc import Callable
from html import unescape
from urllib.parse import parse_qs, urlsplit

import pytest
from streamlit.testing.v1 import AppTest

from presence_core import Presence
from presence_dashboard import texts
from presence_dashboard.components.block_choice import choice_key
from presence_dashboard.components.kick_dialog import timeout_choice
from presence_dashboard.gate.staff_sessions import COOKIE, StaffSessions
from tests.dashboard.conftest import click, log_in, open_page, press, sign_in, tables, tick, tick_member
from tests.support.behind_gate import stand_behind_gate

TOO_OLD = texts.password_too_old("15 min")


@pytest.fixture
def token(staff: StaffSessions, presence: Presence, monkeypatch: pytest.MonkeyPatch) -> str:
    """The token of dana, an admin who signed in 20 minutes ago. Two people are online."""
    presence.set_staff("dana", "admin", by="setup")
    presence.set_staff("alex", "support", by="setup")
    log_in(presence, 2)
    return sign_in(staff, monkeypatch, age=1_200, idle=5)


def labelled(app: AppTest, label: str) -> str:
    [key] = [button.key for button in app.button if button.label == label and button.proto.is_form_submitter]
    return str(key)


def renew(token: str, staff: StaffSessions, monkeypatch: pytest.MonkeyPatch) -> None:
    """Enter the password again."""
    [session] = staff.sessions.sessions("dana")
    stand_behind_gate(monkeypatch, {COOKIE: staff.authenticated_again(token, session.last_seen)})


def bulk_kick() -> tuple[AppTest, str]:
    return click(open_page(q="user", device="Mac"), "kick-all"), "bulk-confirm-1"


def person(button: str) -> tuple[AppTest, str]:
    app = click(open_page("person", q="user00"), button)
    return app, "danger-1" if button == "block" else "confirm-1"


def longer_timeouts() -> tuple[AppTest, str]:
    app, button = person("timeouts-all")
    return app.selectbox(key="idle-1").select("28800").run(), button


def erasure() -> tuple[AppTest, str]:
    app = open_page("person", q="user00")
    app.text_input(key="erase-reason").set_value("asked").run()
    return app.text_input(key="erase-typed").set_value("user00").run(), "danger-erase"


def rule() -> tuple[AppTest, str]:
    app = click(open_page("blocks"), "add-rule")
    app.text_input(key="rule-network-0").set_value("198.51.100.0/24").run()
    click(app, "preview-rule")
    return app, labelled(app, texts.RULE_CONFIRM)


def role() -> tuple[AppTest, str]:
    app = tick_member(open_page("staff"), 0)
    return app.selectbox(key="role-alex-support").select("viewer").run(), "set-role"


def new_member() -> tuple[AppTest, str]:
    app = click(open_page("staff"), "add-staff")
    return app, labelled(app, texts.STAFF_ADD_CONFIRM)


def member_button(key: str) -> Callable[[], tuple[AppTest, str]]:
    return lambda: (tick_member(open_page("staff"), 0), key)


PLACES: dict[str, Callable[[], tuple[AppTest, str]]] = {
    "bulk kick": bulk_kick,
    "block": lambda: person("block"),
    "longer timeouts": longer_timeouts,
    "erase": erasure,
    "export": lambda: (open_page("person", q="user00"), "privacy-export"),
    "rule": rule,
    "role": role,
    "new member": new_member,
    "removal": member_button("remove"),
    "reset": member_button("reset"),
}


@pytest.mark.parametrize("place", PLACES.values(), ids=list(PLACES))
def test_a_dialog_says_at_once_that_the_password_is_needed_again(
    token: str, staff: StaffSessions, monkeypatch: pytest.MonkeyPatch, place: Callable[[], tuple[AppTest, str]]
) -> None:
    app, confirm = place()
    assert TOO_OLD in [element.value for element in app.markdown]
    assert app.button(key=confirm).disabled
    assert link(app)

    renew(token, staff, monkeypatch)
    app, confirm = place()
    assert TOO_OLD not in [element.value for element in app.markdown]
    assert not app.button(key=confirm).disabled


def link(app: AppTest) -> str:
    """The page to which the link leads back."""
    pages = "".join(element.proto.body for element in app.get("html"))
    [address] = {part.split('"')[0] for part in pages.split('href="') if part.startswith("/sign-in-again")}
    return parse_qs(urlsplit(unescape(address)).query)["next"][0]


def test_the_link_leads_back_to_the_page_with_its_filters(token: str) -> None:
    app, _ = bulk_kick()
    assert link(app) == "/?q=user&device=Mac"


def test_a_kick_asks_for_the_password_only_with_a_block(token: str, presence: Presence) -> None:
    app = open_page()
    press(app, "kick", tables(app)[0].ref("user00"))
    assert TOO_OLD not in [element.value for element in app.markdown]
    app.selectbox(key=choice_key(1)).select(texts.BLOCK_HOUR).run()
    assert TOO_OLD in [element.value for element in app.markdown]
    assert app.button(key="danger-1").disabled
    app.selectbox(key=choice_key(1)).select(texts.BLOCK_NOT).run()
    app.text_area(key="reason-1").set_value("Lost device")
    click(app, "danger-1")
    assert presence.sessions("user00") == []


@pytest.mark.parametrize("act", ["bulk kick", "block"])
def test_a_sign_in_that_gets_too_old_meanwhile_stops_the_action_and_its_texts_are_offered_again(
    token: str,
    staff: StaffSessions,
    presence: Presence,
    monkeypatch: pytest.MonkeyPatch,
    act: str,
) -> None:
    monkeypatch.setenv("PRESENCE_STAFF_FRESH", "3600")
    app, confirm = PLACES[act]()
    prefix = "bulk-" if act == "bulk kick" else ""
    app.text_area(key=f"{prefix}reason-1").set_value("Chargeback 4711").run()
    if prefix:
        app.text_input(key="bulk-typed-1").set_value("2")
    monkeypatch.setenv("PRESENCE_STAFF_FRESH", "900")
    click(app, confirm)
    assert TOO_OLD in [element.value for element in app.markdown]
    assert presence.counts().sessions == 2
    assert presence.blocked("user00") is None
    assert presence.jobs().items == []

    renew(token, staff, monkeypatch)
    app = click(open_page(), "draft-continue")
    assert app.text_area(key=f"{prefix}reason-1").value == "Chargeback 4711"
    if prefix:
        app.text_input(key="bulk-typed-1").set_value("2")
    click(app, confirm)
    assert presence.counts().sessions == (0 if prefix else 2)
    assert (presence.blocked("user00") is None) == bool(prefix)


@pytest.mark.parametrize("button", ["kick-all", "kick-person"])
def test_an_action_that_is_continued_spares_the_sessions_that_it_spared_before(
    token: str, staff: StaffSessions, presence: Presence, monkeypatch: pytest.MonkeyPatch, button: str
) -> None:
    presence.login("user00", name="Person 0", device="iPhone")
    app = click(tick(open_page(q="user00"), 0), button)
    keep, reason, confirm = (
        ("bulk-keep-1", "bulk-reason-1", "bulk-confirm-1")
        if button == "kick-all"
        else ("keep-1", "reason-1", "danger-1")
    )
    app.checkbox(key=keep).check().run()
    app.text_area(key=reason).set_value("Chargeback").run()
    renew(token, staff, monkeypatch)
    app = click(open_page(), "draft-continue")
    assert app.checkbox(key=keep).value
    assert app.button(key=confirm).label == texts.confirm(1)


def test_an_unfinished_change_of_timeouts_keeps_its_choice_unless_it_is_no_longer_offered(
    token: str, staff: StaffSessions, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, confirm = longer_timeouts()
    app.text_area(key="reason-1").set_value("Night shift").run()
    renew(token, staff, monkeypatch)
    app = click(open_page(), "draft-continue")
    assert (app.selectbox(key="idle-1").value, app.text_area(key="reason-1").value) == ("28800", "Night shift")
    with monkeypatch.context() as patch:
        patch.setattr(timeout_choice, "TIMEOUTS", (300,))  # as for a role that may only shorten
        app.run()
    assert app.selectbox(key="idle-1").value == ""
    app.run()
    click(app.selectbox(key="idle-1").select("28800").run(), confirm)
    assert [session.idle_timeout for session in presence.sessions("user00")] == [28_800]


def test_unblocking_asks_too(token: str, presence: Presence) -> None:
    presence.block("user00", by="alex", reason="test")
    app, confirm = person("unblock")
    assert TOO_OLD in [element.value for element in app.markdown]
    assert app.button(key=confirm).disabled


def test_a_dashboard_without_a_sign_in_asks_nothing(app: AppTest, presence: Presence) -> None:
    log_in(presence, 1)
    app.run()
    click(app, "kick-all")
    assert not app.button(key="bulk-confirm-1").disabled
