"""The History page without a browser, on a real server, and the files that it exports."""

from __future__ import annotations

import csv
import dataclasses
import io
import time
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from streamlit.testing.v1 import AppTest

from presence_core import AuditEntry, AuditFact, Presence, SessionFilter, Settings
from presence_dashboard import texts
from presence_dashboard.data import paged_list
from presence_dashboard.data.history_query import HistoryQuery, HistoryView, filter_values, page_reader
from presence_dashboard.data.paged_list import scan
from presence_dashboard.data.store import Store
from presence_dashboard.format import minute
from presence_dashboard.roles import HIDDEN, Actor
from presence_dashboard.views.history import row_details as job_details
from presence_dashboard.views.sessions.bulk_kick_progress import result
from tests.dashboard.conftest import age_cache, open_again, pick_row, table, tables, toasts
from tests.support.fair_clock import PATIENT
from tests.support.servers import Server, wait_for

HOSTILE = '=HYPERLINK("http://example.invalid")'


def history(app: AppTest, **address: str) -> AppTest:
    for field, value in address.items():
        app.query_params[field] = value
    app.switch_page("views/history/history.py").run()
    assert not app.exception
    return app


def column(app: AppTest, name: str) -> list[object]:
    return table(app).column(name)


def details(app: AppTest) -> list[str]:
    return [text.value for text in app.text]


def keys(app: AppTest) -> list[str]:
    return [button.key or "" for button in app.button]


def kick(presence: Presence, uid: str, by: str = "alex", reason: str = "Shared account", **also: str) -> None:
    presence.login(uid, name=f"Name of {uid}", device="Mac", ip="192.0.2.7")
    presence.kick(uid, by=by, reason=reason, **also)  # type: ignore[arg-type]


# -- Views and filters -------------------------------------------------------------------------------------------------


def test_a_record_that_is_not_complete_says_since_when_it_is_also_with_a_search(
    app: AppTest, presence: Presence, server: Server
) -> None:
    with Presence.from_url(server.url, Settings(timeout=PATIENT, max_ended=2)) as small:
        for number in range(3):
            kick(small, f"u{number}")
        small.sweep()
        since = small.ended().complete_since
    assert since is not None
    history(app)
    assert texts.ended_since(minute(since, ZoneInfo("UTC"))) in [caption.value for caption in app.caption]
    app.text_input(key="words").set_value("shared").run()
    assert column(app, "uid") == ["u2", "u1"]
    assert texts.ended_since(minute(since, ZoneInfo("UTC"))) in [caption.value for caption in app.caption]


def test_ended_sessions_are_found_by_person_staff_reason_and_how(app: AppTest, presence: Presence) -> None:
    kick(presence, "dana", ticket="HD-1")
    kick(presence, "kim", by="robin", reason="Lost device")
    left = presence.login("lee")
    presence.logout("lee", left.session.session_id)
    history(app)
    assert column(app, "uid") == ["lee", "kim", "dana"]
    assert column(app, "how") == ["Signed out", "Kicked", "Kicked"]
    assert texts.history_place("1", "3", "3", 1) in [text.value for text in app.markdown]
    for field, value, found in (
        ("person", "dana", ["dana"]),
        ("by", "robin", ["kim"]),
        ("words", "LOST", ["kim"]),
        ("words", "hd-1", ["dana"]),
    ):
        app.text_input(key=field).set_value(value).run()
        assert column(app, "uid") == found
        app.button(key="clear").click().run()
    app.selectbox(key="history-how").select("logout").run()
    assert column(app, "uid") == ["lee"]
    assert app.query_params["how"] == "logout"
    presence.login("max", idp={"iss": "https://idp.example", "sid": "one"})
    presence.provider_logout("https://idp.example", session="one", by="Okta", issued_at=time.time())
    app.selectbox(key="history-how").select("idp_logout").run()
    assert column(app, "uid") == ["max"]
    denied = presence.login("zoe").session
    presence.answer_notice("zoe", denied.session_id, denied.login_at, "not_me", until=time.time() + 60)
    app.selectbox(key="history-how").select("denied").run()
    assert column(app, "uid") == ["zoe"]
    assert column(app, "how") == [texts.HISTORY_HOWS["denied"]]
    app.button_group(key="history-view").set_value("staff").run()
    app.selectbox(key="history-act").select("deny_login").run()
    assert column(app, "action") == [texts.HISTORY_ACTS["deny_login"]]


def test_a_link_opens_a_view_with_its_filters(app: AppTest, presence: Presence) -> None:
    presence.block("dana", by="alex", reason="Chargeback", duration=3_600)
    presence.block("kim", by="robin", reason="Spam")
    history(app, view="blocks", by="robin")
    assert column(app, "uid") == ["kim"]
    assert column(app, "until") == [texts.HISTORY_OPEN_END]
    app.text_input(key="by").set_value("").run()
    app.text_input(key="person").set_value("dana").run()
    assert column(app, "reason") == ["Chargeback"]
    app.button_group(key="history-view").set_value("staff").run()
    assert column(app, "action") == ["Block"]  # this page asks for the person, too
    assert app.query_params["view"] == "staff"


def test_staff_actions_show_denied_attempts_and_are_found_by_kind(app: AppTest, presence: Presence) -> None:
    kick(presence, "dana")
    presence.denied(by="vera", what="kick", uid="dana")
    presence.audit_note(by="alex", what="export", outcome="3 sessions exported")
    history(app, view="staff")
    assert sorted(column(app, "action")) == ["Denied attempts", "Export", "Kick"]  # type: ignore[type-var]
    for act, outcome in (("denied", "Kick refused once"), ("kick", "1 session ended")):
        app.selectbox(key="history-act").select(act).run()
        assert column(app, "outcome") == [outcome]


def test_a_name_of_staff_that_no_one_can_have_finds_nothing(app: AppTest, presence: Presence) -> None:
    kick(presence, "dana")
    history(app, by="é" * 200)
    assert not app.warning
    assert [header.value for header in app.subheader] == [texts.HISTORY_NO_MATCH_TITLE]


def test_a_person_is_found_by_what_is_pasted_and_chosen_if_several_match(app: AppTest, presence: Presence) -> None:
    for uid, name, email in (("u1", "Ada King", "ada@example.com"), ("u2", "Ada Prince", "prince@example.com")):
        presence.login(uid, name=name, aliases=[email])
        presence.kick(uid, by="alex", reason="test")
    history(app, view="staff")
    for typed in ("prince@example.com", '"Ada Prince" <prince@example.com>,', "\tuid=u2\n", "u2"):
        app.text_input(key="person").set_value(typed).run()
        assert column(app, "uid") == ["u2"], typed
    app.text_input(key="person").set_value("ada").run()
    assert not tables(app)
    assert texts.person_hits(2, True) in [caption.value for caption in app.caption]
    app.button(key="open-1").click().run()
    assert app.text_input(key="person").value == app.query_params["person"] in ("u1", "u2")
    assert column(app, "uid") == [app.text_input(key="person").value]
    app.text_input(key="person").set_value("nobody@example.com").run()
    assert [header.value for header in app.subheader] == [texts.HISTORY_NO_MATCH_TITLE]
    app.text_input(key="person").set_value("x" * 300).run()
    assert [warning.value for warning in app.warning] == [texts.ERROR_FIELD["text"]["too_long"]]


def test_a_person_stays_found_while_redis_is_away(app: AppTest, server: Server, presence: Presence) -> None:
    presence.login("u1", name="Ada", aliases=["ada@example.com"])
    presence.kick("u1", by="alex", reason="test")
    history(app, person="ada@example.com")
    server.pause()
    age_cache()
    open_again(app)
    assert column(app, "uid") == ["u1"]
    server.resume()


def test_staff_are_found_by_a_part_of_their_name_and_a_member_by_the_whole_name(
    app: AppTest, presence: Presence
) -> None:
    presence.set_staff("dana", "support", by="setup")
    for number, by in enumerate(("dana", "dana.weber", "yordana")):
        kick(presence, f"u{number}", by=by)
    for view in ("ended", "staff"):
        history(app, view=view)
        for typed, found in (("DANA.", {"u1"}), ("rdan", {"u2"}), ("dana", {"u0"})):
            app.text_input(key="by").set_value(typed).run()
            assert set(column(app, "uid")) == found, (view, typed)
        app.button(key="clear").click().run()


def test_totals_are_known_or_estimated_on_the_first_page(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(60):
        presence.login("dana")
    presence.kick("dana", by="alex", reason="Shared account")

    def place() -> str:
        return next(text.value for text in app.markdown if text.value.startswith("1–50"))

    history(app)
    assert place() == texts.history_place("1", "50", "60", 1)
    monkeypatch.setattr(paged_list, "COUNT_STEP", 5)
    monkeypatch.setattr(paged_list, "MAX_SCANNED", 5)
    app.button(key="refresh-list").click().run()
    assert place() == texts.history_place("1", "50", texts.about("60"), 1)
    app.selectbox(key="history-how").select("kicked").run()
    assert place() == texts.history_place("1", "50", texts.at_least("55"), 1)


def test_a_time_is_the_readers_own_and_one_that_ends_before_it_begins_is_said(app: AppTest, presence: Presence) -> None:
    kick(presence, "dana")
    history(app)
    an_hour_ago = f"{datetime.now(UTC) - timedelta(hours=1):%Y-%m-%dT%H:%MZ}"
    for chosen, problem in (
        (f"..{an_hour_ago}", None),
        ("yesterday", None),
        (f"{an_hour_ago}..{an_hour_ago}", texts.unreadable(texts.ERROR_FIELD["since"][""])),
        ("tomorrow", texts.TIME_MALFORMED),
    ):
        app.query_params["time"] = chosen
        app.run()
        assert [warning.value for warning in app.warning] == ([problem] if problem else [])
        assert "dana" not in [cell for shown in tables(app) for cell in shown.column("uid")]
    app.session_state["menu-time"] = True
    app.run()
    app.button(key="time-1h").click().run()
    assert app.query_params["time"] == "1h"
    assert column(app, "uid") == ["dana"]


def test_what_the_library_has_no_index_of_is_looked_for_page_by_page(
    presence: Presence, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(12):
        presence.block(f"u{number:02}", by="alex", reason="rare" if number in (3, 7) else "usual")
    monkeypatch.setattr(paged_list, "_SCAN_STEP", 2)
    store = Store(lambda: Presence.from_url(server.url, Settings(timeout=PATIENT)))
    ask = page_reader("blocks", store, HistoryQuery(words="RARE"))
    first = ask(1, None)
    assert ([ended.uid for ended in first], first.total_is_exact) == (["u07"], False)
    assert [ended.uid for ended in ask(50, first.next_cursor)] == ["u03"]
    monkeypatch.setattr(paged_list, "MAX_SCANNED", 4)
    bounded = ask(50, None)
    assert (bounded.items, bounded.next_cursor is None) == ([], False)
    everything = scan(page_reader("blocks", store, HistoryQuery()), lambda _: True, 2, None)
    assert [ended.uid for ended in everything] == ["u11", "u10"]
    store.close()


def test_a_search_goes_on_behind_pages_without_a_match(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paged_list, "_SCAN_STEP", 2)
    monkeypatch.setattr(paged_list, "MAX_SCANNED", 4)
    for number in range(12):
        presence.block(f"u{number:02}", by="alex", reason="usual" if number else "rare")
    history(app, view="blocks", words="rare")
    for number in (1, 2):
        assert texts.HISTORY_NO_MATCH_SO_FAR in [text.value for text in app.markdown], number
        app.button(key="further").click().run()
    assert column(app, "uid") == ["u00"]


def test_pages_lead_through_all_ends_and_back(app: AppTest, presence: Presence) -> None:
    for _ in range(120):
        presence.login("dana")
    presence.kick("dana", by="alex", reason="test")
    history(app)
    assert len(column(app, "uid")) == 50
    app.button(key="older").click().run()
    app.button(key="older").click().run()
    assert len(column(app, "uid")) == 20
    assert texts.history_place("101", "120", "120", 3) in [text.value for text in app.markdown]
    assert app.button(key="older").disabled
    app.button(key="newer").click().run()
    assert len(column(app, "uid")) == 50
    app.button(key="newest").click().run()
    assert app.button(key="newer").disabled


def test_a_ticked_row_shows_all_of_it(app: AppTest, presence: Presence) -> None:
    kick(presence, "dana", reason="First line\n=second **line**", message="Sorry.", ticket="HD-1")
    kick(presence, "kim")
    pick_row(history(app), 1)
    for value in ("First line\n=second **line**", "Sorry.", "HD-1", "alex", "dana", texts.HISTORY_CAUSES["staff"]):
        assert value in details(app)
    assert column(app, "reason") == ["Shared account", "First line =second **line**"]


def test_a_ticket_and_its_address_find_all_actions(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRESENCE_TICKET_URL", "https://tickets.example.com/{ticket}")
    kick(presence, "dana", ticket="HD-1")
    for ticket in ("HD-1", "HD-2"):
        presence.block("kim", by="alex", reason="Spam", ticket=ticket)
    presence.start_kick(SessionFilter(device="Mac"), by="alex", reason="Shared account", expected=1, ticket="HD-1")
    history(app)
    for view, found in (("ended", 1), ("blocks", 1), ("jobs", 1), ("staff", 4)):
        app.button_group(key="history-view").set_value(view).run()
        for words in ("HD-1", " https://tickets.example.com/HD-1 "):
            app.text_input(key="words").set_value(words).run()
            assert len(column(app, "when")) == found, (view, words)
    assert "before: until unblocked by alex (HD-1)" in " ".join(map(str, column(app, "outcome"))), (
        "the later block says so"
    )


# -- Bulk kicks --------------------------------------------------------------------------------------------------------


def test_a_bulk_kick_is_resumed_and_cancelled_from_its_details(app: AppTest, presence: Presence) -> None:
    presence.login("dana", device="Mac")
    job = presence.start_kick(SessionFilter(device="Mac"), by="alex", reason="Shared account", expected=1)
    presence.pause_job(job.id, by="alex")
    pick_row(history(app, view="jobs"), 0)
    assert column(app, "state") == ["paused"]
    assert "device is Mac" in details(app)
    app.button(key=f"cancel-{job.id}").click().run()
    assert texts.job_steered("cancelled") in toasts(app)
    cancelled = presence.job(job.id)
    assert cancelled is not None
    assert (cancelled.state, cancelled.kicked) == ("cancelled", 0)
    assert column(app, "state") == ["cancelled"]


def test_list_panel_history_and_audit_show_the_same_figures_of_a_bulk_kick(app: AppTest, presence: Presence) -> None:
    for number in range(3):
        last = presence.login(f"user{number}", device="Mac").session
    wait_for("the next millisecond", lambda: presence.counts().as_of > last.login_at + timedelta(milliseconds=1))
    presence.kick_where(SessionFilter(device="Mac"), by="alex", reason="Clean-up", expected=50)  # more than there are
    pick_row(history(app, view="jobs"), 0)
    assert (column(app, "kicked"), column(app, "total")) == (["3"], ["3"])
    [job] = presence.jobs()
    assert texts.bulk_job_result("done", "3", "3") in result(job)
    assert job_details.share(job) == 1.0
    assert "3 sessions ended" in presence.audit(by="alex").items[0].outcome
    cancelled = dataclasses.replace(job, state="cancelled", kicked=1)
    assert job_details.share(cancelled) == 1 / 3, "of those that matched, not of those that might have"


def test_who_may_not_kick_in_bulk_sees_no_buttons_for_it(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRESENCE_DASHBOARD_ROLE", "viewer")
    job = presence.start_kick(SessionFilter(device="Mac"), by="alex", reason="Shared account", expected=1)
    presence.pause_job(job.id, by="alex")
    pick_row(history(app, view="jobs"), 0)
    assert "Shared account" in details(app)
    assert not [key for key in keys(app) if key.endswith(job.id) or key == "export-history"]


@pytest.mark.parametrize("act", ["resume", "cancel"])
def test_who_is_demoted_before_they_steer_a_bulk_kick_is_refused_and_that_is_written_down(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    presence.login("dana", device="Mac")
    job = presence.start_kick(SessionFilter(device="Mac"), by="alex", reason="Shared account", expected=1)
    presence.pause_job(job.id, by="alex")
    pick_row(history(app, view="jobs"), 0)
    monkeypatch.setenv("PRESENCE_DASHBOARD_ROLE", "viewer")
    app.button(key=f"{act}-{job.id}").click().run()
    assert not app.exception
    after = presence.job(job.id)
    assert after is not None
    assert after.state == "paused"
    [entry] = exported(presence)
    assert entry.outcome in ("kick_where refused once", "cancel_job refused once")


def test_the_times_of_a_bulk_kick_and_of_blocks_are_in_words_and_local(app: AppTest, presence: Presence) -> None:
    app.context["timezone"] = "Asia/Kolkata"
    before = datetime(2026, 3, 1, 1, 20, 48, 542_000, UTC)
    for session_filter in (SessionFilter(logged_in_before=before), SessionFilter(idle_for=60)):
        presence.start_kick(session_filter, by="alex", reason="test", expected=1)
    presence.start_kick(SessionFilter(logged_in_before=datetime.now(UTC)), by="alex", reason="test", expected=1)
    block = presence.block("dana", by="alex", reason="Fraud", duration=3_600)
    assert block.until is not None
    end = minute(block.until, ZoneInfo("Asia/Kolkata"))
    history(app, view="jobs")
    shown = {words for row in range(3) for words in details(pick_row(app, row))}
    assert shown == {"alex", "test", texts.BULK_EVERYONE, "not active for 60 s", "signed in before 2026-03-01 06:50:48"}
    app.button_group(key="history-view").set_value("blocks").run()
    assert column(app, "until") == [end]
    assert end in details(pick_row(app, 0))
    app.button_group(key="history-view").set_value("staff").run()
    assert f"blocked until {end}" in column(app, "outcome")


# -- Export ------------------------------------------------------------------------------------------------------------


def file_of(app: AppTest) -> list[dict[str, str]]:
    made: bytes = app.session_state["export-request"].file
    return list(csv.DictReader(io.StringIO(made.decode("utf-8-sig"))))


def exported(presence: Presence) -> list[AuditEntry]:
    return [entry for entry in presence.audit() if entry.action in ("export", "denied")]


def test_what_matches_is_exported_without_formulas_and_that_is_written_down(app: AppTest, presence: Presence) -> None:
    presence.login(HOSTILE, name=HOSTILE, device="+1", ip="192.0.2.7")
    presence.kick(HOSTILE, by="@alex", reason=HOSTILE, message="-1")
    kick(presence, "kim", by="robin")
    history(app, by="@alex")
    app.button(key="export-history").click().run()
    [row] = file_of(app)
    assert row["uid"] == row["name"] == row["note"] == f"'{HOSTILE}"
    assert (row["by"], row["device"], row["message"], row["ip"]) == ("'@alex", "'+1", "'-1", "192.0.2.7")
    assert datetime.fromisoformat(row["at"]).tzinfo is not None
    [entry] = exported(presence)
    assert (entry.by, entry.outcome) == ("local operator", "1 ended session exported, filter by contains @alex")


@pytest.mark.parametrize("view", ["blocks", "jobs", "staff"])
def test_every_view_is_exported(app: AppTest, presence: Presence, view: HistoryView) -> None:
    presence.block("dana", by="alex", reason="Chargeback")
    job = presence.start_kick(SessionFilter(device="Mac"), by="alex", reason="Shared account", expected=1)
    history(app, view=view)
    app.button(key="export-history").click().run()
    rows = file_of(app)
    assert {row["by"] for row in rows} == {"alex"}
    if view == "jobs":
        assert rows[0]["id"] == job.id
        assert '"device": "Mac"' in rows[0]["filter"].replace('":"', '": "')


def test_support_exports_ends_but_not_what_staff_did(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    kick(presence, "dana")
    monkeypatch.setenv("PRESENCE_DASHBOARD_ROLE", "support")
    history(app, view="staff")
    assert column(app, "uid") == ["dana"]
    assert "export-history" not in keys(app)
    app.button_group(key="history-view").set_value("ended").run()
    monkeypatch.setenv("PRESENCE_DASHBOARD_ROLE", "viewer")  # demoted between seeing the button and pressing it
    app.button(key="export-history").click().run()
    assert "export-request" not in app.session_state
    assert [(entry.action, entry.outcome) for entry in exported(presence)] == [("denied", "export ended refused once")]


# -- States ------------------------------------------------------------------------------------------------------------


def test_an_empty_view_and_one_without_a_match_say_which(app: AppTest, presence: Presence) -> None:
    history(app)
    for view in texts.HISTORY_VIEWS:
        app.button_group(key="history-view").set_value(view).run()
        assert [header.value for header in app.subheader] == [texts.HISTORY_EMPTY_TITLE[view]]
        app.text_input(key="person" if view == "failed" else "by").set_value("nobody").run()
        assert [header.value for header in app.subheader] == [texts.HISTORY_NO_MATCH_TITLE]
        app.button(key="clear").click().run()


def test_a_masked_viewer_sees_no_name_or_address(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRESENCE_DASHBOARD_ROLE", "viewer")
    monkeypatch.setenv("PRESENCE_DASHBOARD_MASK", "name,ip")
    kick(presence, "dana")
    pick_row(history(app), 0)
    assert column(app, "name") == column(app, "ip") == [HIDDEN]
    shown = " ".join(details(app))
    assert "Name of dana" not in shown
    assert "192.0.2" not in shown
    assert "dana" in shown


@pytest.mark.parametrize("words", ["203.0.113", "Lovelace"])
def test_who_is_masked_finds_nothing_by_what_is_hidden_from_them(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    facts = AuditFact("sessions_exported", {"count": 1}), AuditFact("filter", {"filter": "Lovelace"})
    presence.audit_note(by="alex", what="export", facts=facts)
    presence.denied(by="mallory", what="sign-in", reason="wrong password, from 203.0.113.7")
    assert len(column(history(app, view="staff", words=words), "by")) == 1
    monkeypatch.setenv("PRESENCE_DASHBOARD_ROLE", "viewer")
    monkeypatch.setenv("PRESENCE_DASHBOARD_MASK", "name,ip")
    app.session_state["list-staff"].refresh()
    app.run()
    assert [header.value for header in app.subheader] == [texts.HISTORY_NO_MATCH_TITLE]
    app.text_input(key="words").set_value("exported" if words == "Lovelace" else "wrong password").run()
    assert len(column(app, "by")) == 1


def test_a_masked_viewer_does_not_see_what_a_bulk_kick_searched_for() -> None:
    search = SessionFilter(name_contains="Lovelace", ip="192.0.2.7", device="Ada's Mac", app="shop")
    masked, support = Actor("vera", "viewer", frozenset({"name", "ip"})), Actor("sam", "support")
    assert filter_values(search, masked) == {
        "name_contains": HIDDEN, "ip": HIDDEN, "device": HIDDEN, "app": "shop",
    }  # fmt: skip
    assert filter_values(search, support) == {
        "name_contains": "Lovelace", "ip": "192.0.2.7", "device": "Ada's Mac", "app": "shop",
    }  # fmt: skip
    spared = SessionFilter(app="shop", without=SessionFilter(text="Lovelace", mfa=False))
    assert filter_values(spared, masked) == {"app": "shop", "without": {"text": HIDDEN, "mfa": False}}
    assert filter_values(spared, support) == {"app": "shop", "without": {"text": "Lovelace", "mfa": False}}


def test_staff_actions_are_described_in_words(app: AppTest, presence: Presence) -> None:
    presence.login("dana", device="Mac")
    job = presence.start_kick(SessionFilter(device="Mac"), by="alex", reason="Shared account", expected=1)
    presence.pause_job(job.id, by="alex")
    presence.audit_note(by="alex", what="repair", outcome="nothing to put right")
    presence.audit_note(by="alex", what="of our own", outcome="done")
    assert column(history(app, view="staff"), "action") == [
        "of our own", "Repair", "Bulk kick paused", "Bulk kick started",
    ]  # fmt: skip
    app.selectbox(key="history-act").select("repair").run()
    assert column(app, "action") == ["Repair"]


@pytest.mark.parametrize("mask", ["", "name"])
def test_a_bulk_change_of_timeouts_is_there_with_its_filter_unless_it_is_masked(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch, mask: str
) -> None:
    monkeypatch.setenv("PRESENCE_DASHBOARD_ROLE", "viewer")
    monkeypatch.setenv("PRESENCE_DASHBOARD_MASK", mask)
    presence.login("u1", name="Ada Lovelace")
    presence.change_timeouts_where(
        SessionFilter(text="lovelace"), idle_timeout=60, by="alex", reason="kiosk", expected=1
    )  # fmt: skip
    assert column(history(app, view="staff"), "action") == [
        "Bulk change of timeouts", "Bulk change of timeouts started",
    ]  # fmt: skip
    outcomes = [str(outcome) for outcome in column(app, "outcome")]
    assert ["lovelace" in outcome for outcome in outcomes] == [False, not mask]
    assert outcomes[0].endswith("timeouts of 1 of 1 session changed")
    app.selectbox(key="history-act").select("change_timeouts_where").run()
    assert len(column(app, "action")) == 2


def test_an_outage_keeps_the_rows_and_turns_the_page_off(app: AppTest, server: Server, presence: Presence) -> None:
    kick(presence, "dana")
    history(app)
    server.pause()
    open_again(app)
    assert column(app, "uid") == ["dana"]
    assert app.button(key="refresh-list").disabled
    assert app.button(key="export-history").disabled
    server.resume()
    open_again(app)
    assert not app.button(key="refresh-list").disabled


@pytest.mark.parametrize("view", ["blocks", "staff"])
@pytest.mark.parametrize("mask", ["", "name"])
def test_blocks_and_staff_actions_have_the_names_of_people_unless_they_are_masked(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch, view: HistoryView, mask: str
) -> None:
    monkeypatch.setenv("PRESENCE_DASHBOARD_ROLE", "viewer")
    monkeypatch.setenv("PRESENCE_DASHBOARD_MASK", mask)
    presence.login("u1", name="Ada King")
    for uid in ("u1", "u2"):
        presence.block(uid, by="sam", reason="Fraud")
    shown = HIDDEN if mask else "Ada King"
    history(app, view=view)
    assert dict(zip(column(app, "uid"), column(app, "name"), strict=True)) == {"u1": shown, "u2": ""}
    pick_row(app, column(app, "uid").index("u1"))
    assert shown in details(app)
