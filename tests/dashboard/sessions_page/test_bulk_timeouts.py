"""The Sessions page: the timeouts of all matches at once, as a job."""

from __future__ import annotations

from dataclasses import replace

import pytest
from streamlit.testing.v1 import AppTest

from presence_core import Presence
from presence_dashboard import texts
from presence_dashboard.roles import Actor
from tests.dashboard.conftest import log_in
from tests.dashboard.sessions_page.test_bulk import SUPPORT, act_as, words


def idle(presence: Presence) -> dict[str, int]:
    return {session.uid: session.idle_timeout for session in presence.iter_sessions()}


def ask(app: AppTest, seconds: int) -> AppTest:
    app.button(key="timeouts-all").click().run()
    app.selectbox(key=f"bulk-idle-{app.session_state['bulk-timeouts-number']}").set_value(str(seconds)).run()
    assert not app.exception
    return app


def confirm(app: AppTest, reason: str = "kiosks") -> AppTest:
    number = app.session_state["bulk-timeouts-number"]
    app.text_area(key=f"bulk-timeouts-reason-{number}").set_value(reason)
    return app.button(key=f"bulk-timeouts-confirm-{number}").click().run()


def test_the_dialog_says_what_would_change_and_a_job_changes_it_for_no_later_login(
    app: AppTest, presence: Presence
) -> None:
    log_in(presence, 2, "kiosk")
    presence.login("kiosk-short", idle_timeout=60)
    log_in(presence, 1, "other")
    app.query_params["q"] = "kiosk"
    app.run().button(key="timeouts-all").click().run()
    assert texts.TIMEOUTS_MISSING in words(app)
    ask(app, 300)
    assert texts.timeouts_figures("2", "1", "0") in words(app)
    log_in(presence, 1, "kiosk-late")
    assert texts.REASON_MISSING in words(confirm(app, reason=" "))
    confirm(app)
    assert texts.timeouts_job_result("done", "3", "3") in words(app)
    assert set(idle(presence).values()) == {300, 1800}
    assert [uid for uid, seconds in sorted(idle(presence).items()) if seconds == 1800] == ["kiosk-late00", "other00"]
    [job] = presence.jobs().items
    assert (job.kind, job.by, job.reason, job.only_shorten) == ("timeouts", "local operator", "kiosks", False)


def test_who_may_not_change_so_many_alone_reads_why_and_has_no_button(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(presence, 3, "kiosk")
    app.run()
    act_as(monkeypatch, SUPPORT)
    ask(app, 300)
    assert texts.timeouts_over("2") in words(app)
    assert not [button for button in app.button if str(button.key).startswith("bulk-timeouts-confirm")]


@pytest.mark.parametrize(
    ("asker", "why"),
    [
        (Actor("sam", "support", bulk_limit=2, can_ask=True), texts.timeouts_ask_needed("2")),
        (Actor("eve", "admin", four_eyes=100, can_ask=True), texts.ASK_TIMEOUTS),
    ],
)
def test_beyond_the_limit_and_with_four_eyes_a_second_person_approves_the_change(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch, asker: Actor, why: str
) -> None:
    log_in(presence, 3, "kiosk")
    presence.set_staff("grace", "admin", by="setup")
    presence.set_staff(asker.name, asker.role, by="grace")
    app.run()
    act_as(monkeypatch, asker)
    ask(app, 3600)
    assert why in words(app)
    number = app.session_state["bulk-timeouts-number"]
    app.text_area(key=f"bulk-timeouts-reason-{number}").set_value("kiosks")
    app.button(key=f"bulk-timeouts-ask-{number}").click().run()
    [asked] = presence.approval_requests()
    assert (asked.by, asked.idle_timeout, asked.sessions) == (asker.name, 3600, 3)
    assert (presence.jobs().items, set(idle(presence).values())) == ([], {1800})
    act_as(monkeypatch, replace(asker, name="grace", role="admin", bulk_limit=None))
    app.run().button(key=f"review-{asked.id}").click().run()
    assert texts.timeouts_figures("0", "3", "0") in words(app)
    key = f"review-{app.session_state['approval-number']}"
    app.text_input(key=f"{key}-typed").set_value("3")
    app.button(key=f"danger-{key}").click().run()
    assert not app.exception
    [job] = presence.jobs().items
    assert (job.kind, job.by, job.total) == ("timeouts", "grace", 3)
    assert presence.run_job(job.id).count == 3
    assert set(idle(presence).values()) == {3600}
    assert [request.state for request in presence.approval_requests()] == ["done"]


def test_support_makes_no_time_longer(app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch) -> None:
    presence.login("kiosk-long", idle_timeout=7200)
    presence.login("kiosk-short", idle_timeout=60)
    app.run()
    act_as(monkeypatch, SUPPORT)
    ask(app, 300)
    assert texts.timeouts_figures("1", "0", "0") in words(app)
    assert texts.timeouts_skipped(1, "1") in words(app)
    confirm(app)
    assert texts.timeouts_job_result("done", "1", "2") in words(app)
    assert idle(presence) == {"kiosk-long": 300, "kiosk-short": 60}
