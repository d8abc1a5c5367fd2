"""The Report page without a browser, on a real server: figures, bulk kicks in words, and the export."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from streamlit.testing.v1 import AppTest

from presence_core import NoticeAnswer, Presence, SessionFilter
from presence_dashboard import texts
from presence_dashboard.actions.csv_export import csv as as_csv
from presence_dashboard.actions.report_export import COLUMNS
from presence_dashboard.data.report import shift_report
from presence_dashboard.data.report.shift_report import MemberReport, ShiftReport, read_report
from presence_dashboard.language import in_language
from presence_dashboard.roles import HIDDEN, Actor
from presence_dashboard.views.report.row_words import worded, worded_rows
from tests.dashboard.conftest import cells

HOSTILE = '=HYPERLINK("http://example.invalid")<script>'
ADMIN = Actor("dana", "admin")


def kick(presence: Presence, uid: str, by: str, sessions: int = 1, **also: object) -> None:
    for _ in range(sessions):
        presence.login(uid, device="Mac", ip="192.0.2.7")
    presence.kick(uid, by=by, **({"reason": "Shared account"} | also))  # type: ignore[arg-type]


def kick_app(presence: Presence, by: str) -> None:
    """A bulk kick of three sessions of two people."""
    for uid in ("lee", "lee", "kim"):
        presence.login(uid, app="ios", app_version="7.4")
    presence.kick_where(
        SessionFilter(app="ios", app_version="7.4"), by=by, reason="Broken version", expected=3, ticket="INC-1"
    )


def report_of(presence: Presence, hours: float = 1) -> ShiftReport:
    return read_report(presence, datetime.now(UTC) - timedelta(hours=hours), None)


def member(report: ShiftReport, name: str) -> MemberReport:
    return next(member for member in report.members if member.name == name)


# -- Figures -----------------------------------------------------------------------------------------------------------


def test_each_colleague_has_final_figures_of_sessions_people_blocks_and_tickets(presence: Presence) -> None:
    kick(presence, "ann", "dana", sessions=2, ticket="HD-1")
    kick(presence, "ann", "dana", ticket="HD-1", block_for=60)
    presence.block("bob", by="dana", reason="Spam", ticket="HD-2")
    kick_app(presence, "dana")
    kick(presence, "ben", "sam")
    report = report_of(presence)
    dana = member(report, "dana")
    assert [each.name for each in report.members] == ["dana", "sam"]
    assert (dana.kicks, dana.bulk_kicks, dana.blocks, dana.sessions) == (2, 1, 2, 6)
    assert dana.uids == {"ann", "kim", "lee"}
    assert dana.is_whole
    assert dana.tickets == ("HD-1", "HD-2", "INC-1")
    assert (report.sessions, len(report.uids)) == (7, 4)
    assert report.with_first("sam").members[0].name == "sam"


def test_a_bulk_kick_is_one_row_with_the_figures_of_its_job_and_its_filter_in_words(presence: Presence) -> None:
    kick_app(presence, "dana")
    [row] = worded_rows(report_of(presence), ADMIN, UTC)
    [job] = presence.jobs().items
    assert (row.action, row.sessions, row.people) == ("Bulk kick", job.kicked, "2 people")
    assert row.outcome == f"{job.kicked} of {job.total} sessions ended"
    assert row.filter == "app is ios, app version is 7.4"
    assert (row.reason, row.ticket) == ("Broken version", "INC-1")


def test_a_bulk_change_of_timeouts_is_in_the_report_and_counts_no_kick(presence: Presence) -> None:
    presence.login("lee", app="ios")
    presence.change_timeouts_where(SessionFilter(app="ios"), idle_timeout=60, by="dana", reason="Kiosk", expected=1)
    [dana] = report_of(presence).members
    assert (dana.kicks, dana.bulk_kicks, dana.sessions) == (0, 0, 0)
    rows = worded_rows(report_of(presence), ADMIN, UTC)
    assert [row.action for row in rows] == ["Bulk change of timeouts started", "Bulk change of timeouts"]
    assert rows[1].outcome.endswith("timeouts of 1 of 1 session changed")


def test_a_bulk_kick_says_which_sessions_it_left_out(presence: Presence) -> None:
    presence.login("lee", app="ios", app_version="7.4", methods=["pwd"])
    kept = SessionFilter(methods=["otp", "pwd"], mfa=True, logged_in_after=1_700_000_000)
    asked = SessionFilter(app_version_below="7.10", mfa=False, seen_within=60, without=kept)
    presence.kick_where(asked, by="dana", reason="Old version", expected=1)
    [row] = worded_rows(report_of(presence), ADMIN, UTC)
    assert row.filter == (
        "app version below 7.10, active in the last 60 s, without a second factor, "
        "but not: signed in since 2023-11-14 22:13:20, signed in with otp, pwd, with a second factor"
    )


def test_the_figures_of_a_bulk_kick_have_the_separators_of_the_language(presence: Presence) -> None:
    kick_app(presence, "dana")
    report = report_of(presence)
    [row] = report.members[0].rows
    assert row.bulk is not None
    large = replace(row, bulk=replace(row.bulk, job=replace(row.bulk.job, kicked=1234, total=5678)))
    with in_language("de"):
        assert worded(large, {}, ADMIN, UTC).outcome == "1.234 von 5.678 Sitzungen beendet"


def test_a_bulk_kick_that_a_colleague_cancels_is_a_row_of_both_and_counts_once(presence: Presence) -> None:
    presence.login("lee", app="ios")
    job = presence.start_kick(SessionFilter(app="ios"), by="dana", reason="Broken", expected=1)
    presence.cancel_job(job.id, by="sam")
    report = report_of(presence)
    assert member(report, "dana").bulk_kicks == 1
    assert [row.entry.action for row in member(report, "sam").rows] == ["kick_where_cancel"]
    assert report.sessions == 0
    assert "cancelled" in worded_rows(report, ADMIN, UTC)[0].outcome


def test_people_of_a_bulk_kick_are_at_least_those_whose_ends_are_still_stored(presence: Presence) -> None:
    kick_app(presence, "dana")
    presence.erase("lee", by="dana", reason="Asked for it")
    report = report_of(presence)
    [row] = [row for row in worded_rows(report, ADMIN, UTC) if row.action == "Bulk kick"]
    assert row.people == "at least 1 people"
    assert not report.is_whole


def test_a_report_of_too_many_actions_says_from_when_on_it_is_complete(
    presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shift_report, "PAGE", 2)
    monkeypatch.setattr(shift_report, "MAX_ENTRIES", 4)
    for number in range(5):
        presence.unblock(f"u{number}", by="dana", reason="Solved")
    report = report_of(presence)
    assert [row.entry.uid for row in report.members[0].rows] == ["u1", "u2", "u3", "u4"]
    assert report.complete_since == report.members[0].rows[0].entry.at


def test_users_who_answer_a_notice_are_no_colleagues(presence: Presence) -> None:
    kick(presence, "ann", "dana")
    answers: dict[str, NoticeAnswer] = {"kim": "me", "lee": "not_me"}
    for uid, answer in answers.items():
        session = presence.login(uid).session
        presence.login(uid)
        assert presence.answer_notice(uid, session.session_id, session.login_at, answer, until=4e9, block_for=60)
    assert [member.name for member in report_of(presence).members] == ["dana"]


def test_only_the_period_is_reported(presence: Presence) -> None:
    kick(presence, "ann", "dana")
    assert report_of(presence).members
    now = datetime.now(UTC)
    assert read_report(presence, now - timedelta(hours=2), now - timedelta(hours=1)).members == ()


# -- Words -------------------------------------------------------------------------------------------------------------


def test_a_masked_actor_sees_no_search_text_of_a_bulk_kick(presence: Presence) -> None:
    presence.login("lee", name="Lee Secret", ip="192.0.2.9")
    presence.kick_where(SessionFilter(text="Secret"), by="dana", reason="x", expected=1)
    presence.login("kim", ip="192.0.2.9")
    presence.kick_where(SessionFilter(ip="192.0.2.0/24"), by="dana", reason="x", expected=1)
    rows = worded_rows(report_of(presence), Actor("eve", "viewer", frozenset(("name", "ip"))), UTC)
    assert [row.filter for row in rows] == [f"search “{HIDDEN}”", f"address {HIDDEN}"]


def test_a_csv_has_every_row_and_runs_no_formula(presence: Presence) -> None:
    kick(presence, "ann", "dana", reason=HOSTILE, ticket="+1")
    kick_app(presence, "dana")
    rows = worded_rows(report_of(presence), ADMIN, UTC)
    first, second = csv.DictReader(io.StringIO(as_csv(COLUMNS, rows, header=True)))
    assert first["reason"] == f"'{HOSTILE}"
    assert first["ticket"] == "'+1"
    assert (first["uid"], first["sessions"]) == ("ann", "1")
    assert second["filter"] == "app is ios, app version is 7.4"


# -- The page ----------------------------------------------------------------------------------------------------------


def open_report(app: AppTest, **address: str) -> AppTest:
    for field, value in address.items():
        app.query_params[field] = value
    app.switch_page("views/report/report.py").run()
    assert not app.exception
    return app


def html(app: AppTest) -> str:
    return "".join(str(element.proto) for element in app.get("html"))


def test_the_page_shows_own_actions_first_and_typed_text_as_text(app: AppTest, presence: Presence) -> None:
    kick(presence, "ann", "dana", sessions=2)
    kick(presence, "ben", "local operator", reason=HOSTILE)
    open_report(app, time="since-00:00")
    headings = [text.value for text in app.markdown if text.value.startswith("### ")]
    assert headings == [f"### **local operator** ({texts.REPORT_YOU})", "### **dana**"]
    assert "<script>" not in html(app)
    assert "&lt;script&gt;" in html(app)
    assert "export-report" in [button.key for button in app.button]


def test_the_name_of_a_person_stands_next_to_the_user_id_on_the_page_and_in_the_csv(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    presence.login("ann", name="Ann Wekesa")
    presence.kick("ann", by="dana", reason="Shared account")
    kick(presence, "ben", "dana")
    assert sorted(cells(open_report(app), texts.LABEL_PERSON)) == ["Ann Wekesa (ann)", "ben"]
    assert [row.name for row in worded_rows(report_of(presence), ADMIN, UTC)] == ["Ann Wekesa", None]
    masked = Actor("sam", "viewer", frozenset({"name"}))
    assert [row.name for row in worded_rows(report_of(presence), masked, UTC)] == [HIDDEN, None]


@pytest.mark.parametrize(("role", "may"), [("viewer", False), ("support", True)])
def test_support_exports_the_report_that_they_see(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch, role: str, may: bool
) -> None:
    monkeypatch.setenv("PRESENCE_DASHBOARD_ROLE", role)
    kick(presence, "ann", "dana")
    open_report(app)
    exports = [button for button in app.button if button.key == "export-report"]
    assert bool(exports) is may
    if may:
        exports[0].click().run()
        assert not app.exception
        assert texts.export_ready(1, "1") in [text.value for text in app.markdown]


def test_a_period_without_actions_says_so(app: AppTest) -> None:
    open_report(app)
    assert texts.REPORT_EMPTY_TITLE in [title.value for title in app.subheader]


def test_a_period_that_ends_before_its_start_says_so(app: AppTest) -> None:
    open_report(app, time="2026-01-02T00:00Z..2026-01-01T00:00Z")
    assert [warning.value for warning in app.warning] == [texts.REPORT_WRONG_RANGE]
