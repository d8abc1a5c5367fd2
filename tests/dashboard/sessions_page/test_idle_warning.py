"""The end of a sign-in of staff: the page warns before it, a click stays, and page, query and open dialog come back."""

from __future__ import annotations

import time

import pytest
from streamlit.testing.v1 import AppTest

from presence_core import Presence
from presence_dashboard import drafts, texts
from presence_dashboard.data.browser_tab import Tab
from presence_dashboard.gate.staff_sessions import StaffSessions
from presence_dashboard.language import in_language
from tests.dashboard.conftest import SCRIPT, click, log_in, open_page, sign_in, tick

IDLE, ABSOLUTE = 1_800, 43_200


def only_the_warning() -> None:
    from presence_dashboard.components import account

    account.idle_warning()


def drawn() -> AppTest:
    """A tick of an open page, which is no activity."""
    app = AppTest.from_function(only_the_warning, default_timeout=30).run()
    assert not app.exception
    return app


def test_the_page_warns_before_an_idle_sign_out_and_a_click_stays(
    staff: StaffSessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = sign_in(staff, monkeypatch, age=3_000, idle=IDLE - 100)
    app = drawn()
    assert texts.idle_warning("", 1).split(" at ")[0] in app.markdown[0].value
    app.button(key="stay-signed-in-page").click().run()
    assert not app.markdown
    session = staff.sessions.validate(token, touch=False).session
    assert session is not None
    assert time.time() - session.last_seen.timestamp() < 60


def test_there_is_no_warning_long_before_the_end(staff: StaffSessions, monkeypatch: pytest.MonkeyPatch) -> None:
    sign_in(staff, monkeypatch, age=3_000, idle=IDLE - 600)
    assert not drawn().markdown


def test_a_sign_in_that_has_lasted_as_long_as_it_may_cannot_be_extended(
    staff: StaffSessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign_in(staff, monkeypatch, age=ABSOLUTE - 60, idle=5)
    app = drawn()
    assert "After you sign in again" in app.markdown[0].value
    assert not app.button


def test_after_the_sign_out_the_link_leads_back_to_the_page_and_its_query(
    staff: StaffSessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = sign_in(staff, monkeypatch, age=100, idle=5)
    staff.end_sign_in(token)
    app = AppTest.from_file(SCRIPT, default_timeout=30)
    app.query_params["q"] = "dana & co"
    app.query_params["device"] = ["Mac", "iPad"]
    app.run()
    assert not app.exception
    assert "?q=dana+%26+co&amp;device=Mac&amp;device=iPad" in "".join(element.proto.body for element in app.get("html"))


# -- Drafts -----------------------------------------------------------------------------------------------------------


def write_kick(app: AppTest) -> AppTest:
    """Open the dialog for one session and write into it."""
    tick(app, 0)
    click(app, "kick-selected")
    app.text_area(key="reason-1").set_value("Chargeback 4711")
    app.text_area(key="message-1").set_value("Call us.")
    app.text_input(key="ticket-1").set_value("FR-1").run()
    assert not app.exception
    return app


def texts_of(app: AppTest) -> list[str | None]:
    return [*(area.value for area in app.text_area), app.text_input(key="ticket-1").value]


def test_an_open_dialog_survives_a_sign_out_and_is_sent_after_the_next_sign_in(
    staff: StaffSessions, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    [login] = log_in(presence, 1)
    token = sign_in(staff, monkeypatch, age=100, idle=5)
    write_kick(open_page())
    assert "draft-continue" not in keys(open_page()), "the same sign-in: its tab still shows it"
    staff.end_sign_in(token)
    sign_in(staff, monkeypatch, age=10, idle=5)
    app = open_page()
    assert texts.draft_kept(f"**{texts.KICK_ONE}** **Person 0**") in [element.value for element in app.markdown]
    click(app, "draft-continue")
    assert texts_of(app) == ["Chargeback 4711", "Call us.", "FR-1"]
    click(app, "danger-1")
    ended = presence.validate(login.token).ended
    assert ended is not None
    assert (ended.note, ended.ticket) == ("Chargeback 4711", "FR-1")
    sign_in(staff, monkeypatch, age=5, idle=5)
    assert "draft-continue" not in keys(open_page()), "it was sent"


def test_a_draft_is_never_offered_to_another_member_and_can_be_discarded(
    staff: StaffSessions, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(presence, 1)
    presence.set_staff("eve", "admin", by="setup")
    sign_in(staff, monkeypatch, age=100, idle=5)
    write_kick(open_page())
    sign_in(staff, monkeypatch, age=50, idle=5, name="eve")
    assert "draft-continue" not in keys(open_page())
    sign_in(staff, monkeypatch, age=10, idle=5)
    app = click(open_page(), "draft-discard")
    assert "draft-continue" not in keys(app)


def test_a_draft_is_kept_for_an_hour(staff: StaffSessions, presence: Presence, monkeypatch: pytest.MonkeyPatch) -> None:
    log_in(presence, 1)
    sign_in(staff, monkeypatch, age=100, idle=5)
    write_kick(open_page())
    sign_in(staff, monkeypatch, age=10, idle=5)
    monkeypatch.setattr(drafts, "KEEP", 0.0)
    assert "draft-continue" not in keys(open_page())


def test_a_bulk_kick_is_counted_again_when_its_draft_is_continued(
    staff: StaffSessions, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(presence, 3)
    sign_in(staff, monkeypatch, age=100, idle=5)
    app = click(open_page(), "kick-all")
    app.text_area(key="bulk-reason-1").set_value("Old version")
    app.text_input(key="bulk-ticket-1").set_value("FR-2").run()
    presence.logout(*refs_of(presence)[0])
    sign_in(staff, monkeypatch, age=10, idle=5)
    app = click(open_page(), "draft-continue")
    assert (app.text_area(key="bulk-reason-1").value, app.text_input(key="bulk-ticket-1").value) == (
        "Old version", "FR-2",
    )  # fmt: skip
    assert "**2** sessions" in " ".join(element.value for element in app.markdown)


def test_a_dialog_without_a_typed_text_leaves_no_draft(
    staff: StaffSessions, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(presence, 1)
    presence.block("user00", by="alex", reason="Fraud", message="Call us.", ticket="FR-1")
    sign_in(staff, monkeypatch, age=100, idle=5)
    click(tick(open_page(), 0), "kick-selected")  # only opened
    app = write_kick(open_page())
    app.text_area(key="reason-1").set_value("")
    app.text_area(key="message-1").set_value(" ")
    app.text_input(key="ticket-1").set_value("").run()  # typed and deleted
    click(open_page("person", q="user00"), "block")  # filled with the existing block
    sign_in(staff, monkeypatch, age=10, idle=5)
    assert "draft-continue" not in keys(open_page())
    app = click(open_page("person", q="user00"), "block")
    app.text_area(key="reason-1").set_value("Fraud, chargeback").run()
    sign_in(staff, monkeypatch, age=5, idle=5)
    assert "draft-continue" in keys(open_page())


def test_the_offer_of_a_draft_has_the_language_of_its_page(
    staff: StaffSessions, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(presence, 2)

    def offer() -> str:
        sign_in(staff, monkeypatch, age=10, idle=5)
        german = AppTest.from_file(SCRIPT, default_timeout=30)
        german.context["locale"] = "de"
        return next(part.value for part in german.run().markdown if "Stunde" in part.value)

    sign_in(staff, monkeypatch, age=100, idle=5)
    write_kick(open_page())
    with in_language("de"):
        assert offer() == texts.draft_kept(f"**{texts.KICK_ONE}** **Person 1**")
    app = click(open_page(), "kick-all")
    app.text_area(key="bulk-reason-1").set_value("Old version").run()
    with in_language("de"):
        assert offer() == texts.draft_kept(f"**{texts.BULK_TITLE_EVERYONE}** {texts.BULK_EVERYONE}")


def test_a_draft_is_offered_in_one_tab_that_was_opened_after_it_was_written(
    staff: StaffSessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign_in(staff, monkeypatch, age=100, idle=5)
    opened = {name: Tab(opened_at=time.monotonic() + later) for name, later in
              (("before", -1), ("writer", -1), ("reloaded", 1), ("later", 2))}  # fmt: skip
    still_open, current = set(opened), "writer"
    monkeypatch.setattr(drafts, "this_tab", lambda: opened[current])
    monkeypatch.setattr(drafts, "tab_id", lambda: current)
    monkeypatch.setattr(drafts, "is_open", lambda tab: tab in still_open)

    def offering() -> list[str]:
        nonlocal current
        found = []
        for current in ("before", "reloaded", "later", "writer"):
            if current in still_open and drafts.offered("kick") is not None:
                found.append(current)
        return found

    drafts.keep("kick", str, None, {"reason": "x"}, has_text=True)
    assert offering() == [], "its own tab shows it"
    still_open.remove("writer")
    assert offering() == ["reloaded"]
    still_open.remove("reloaded")
    assert offering() == ["later"]


def keys(app: AppTest) -> set[str | None]:
    return {button.key for button in app.button}


def refs_of(presence: Presence) -> list[tuple[str, str]]:
    return [(session.uid, session.session_id) for session in presence.list_sessions()]
