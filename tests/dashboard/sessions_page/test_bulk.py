"""The Sessions page: all matches at once, as a job that kicks them and as a file."""

from __future__ import annotations

import csv
import io
import time
from datetime import UTC
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from presence_core import Job, Login, Presence, SessionFilter, Settings
from presence_core.files.csv_safety import safe_cell
from presence_core.schema.record import FLAGS
from presence_core.text.languages import LANGUAGES
from presence_dashboard import access, texts
from presence_dashboard.actions import bulk_kick, csv_export, history_export
from presence_dashboard.actions.kick_and_block import ActionDetails
from presence_dashboard.data.store import Store, open_store
from presence_dashboard.format import number
from presence_dashboard.language import in_language
from presence_dashboard.roles import HIDDEN, Actor, Denied
from presence_dashboard.views.history import row_details
from presence_dashboard.views.sessions import bulk_kick_progress
from presence_dashboard.views.sessions.bulk_kick_dialog import is_number
from tests.dashboard.conftest import cells, log_in, open_again, refs, tick, toasts, uids
from tests.support.fair_clock import PATIENT
from tests.support.place_file import city, write_place_file
from tests.support.servers import Server

SUPPORT = Actor("sam", "support", bulk_limit=2)
WHY = ActionDetails("Shared account", "Please sign in again.", "T-1")


def live(presence: Presence, logins: list[Login]) -> list[str]:
    return [login.session.uid for login in logins if presence.validate(login.token, touch=False)]


def ask(app: AppTest) -> AppTest:
    app.button(key="kick-all").click().run()
    assert not app.exception
    return app


def kick_all(app: AppTest, typed: str, reason: str = "Shared account") -> AppTest:
    dialog = app.session_state["bulk-number"]
    app.text_area(key=f"bulk-reason-{dialog}").set_value(reason)
    app.text_input(key=f"bulk-typed-{dialog}").set_value(typed)
    return app.button(key=f"bulk-confirm-{dialog}").click().run()


def words(app: AppTest) -> str:
    assert not app.exception
    kinds = (app.markdown, app.error, app.warning, app.info)
    return " | ".join(element.value for kind in kinds for element in kind)


def act_as(monkeypatch: pytest.MonkeyPatch, actor: Actor) -> None:
    """Another staff member is signed in."""
    monkeypatch.setattr(access, "current", lambda *, touch=True: actor)
    monkeypatch.setattr(access, "require", lambda right, *, action, uid=None: actor)


def paused_job(presence: Presence, by: str = "alex") -> Job:
    """A job of another staff member, which has not kicked any session yet."""
    asked = SessionFilter(text="user")
    job = presence.start_kick(asked, by=by, reason="Clean-up", expected=50)
    return presence.pause_job(job.id, by=by)


def test_the_dialog_says_how_each_person_was_found(app: AppTest, presence: Presence) -> None:
    log_in(presence, 6, "x")
    presence.login("berg", name="Anna")
    presence.login("u1", name="Sam O'Berg", aliases=["berg@example.com"])
    for n in range(5):
        presence.login(f"u1{n}", name="Van-den-Berg")
    app.query_params["q"] = "berg"
    ask(app.run())
    people = app.dataframe[0].value
    assert "Name" in cells(app, texts.COLUMN_FOUND_BY)
    found = dict(zip(people[texts.LABEL_UID], people[texts.COLUMN_FOUND_BY], strict=True))
    assert (found["berg"], found["u1"], len(found)) == ("User ID", "Name, Also known as", 7)
    assert [expander.label for expander in app.expander] == [texts.bulk_people(7, are_all=True)]


# -- Kicking all that match --------------------------------------------------------------------------------------------


def test_all_that_match_are_kicked_and_no_one_else(app: AppTest, presence: Presence) -> None:
    users, others = log_in(presence, 60), log_in(presence, 3, "other")
    app.query_params["q"] = "user"
    app.run()
    assert app.button(key="kick-all").label == texts.kick_all("60", matching=True, exact=False)
    ask(app)
    assert texts.bulk_found(60, "60", "**60** people", "", "").split(" as of")[0] in words(app)
    assert len(cells(app, texts.LABEL_UID)) == 5
    late = log_in(presence, 1, "user-late")
    kick_all(app, "60")
    assert texts.bulk_job_result("done", "60", "60") in words(app)
    assert live(presence, users) == []
    assert len(live(presence, others)) == 3
    assert len(live(presence, late)) == 1, "who logs in after the preview is spared"
    assert uids(app) == ["user-late00"]
    [job] = presence.jobs().items
    assert (job.state, job.by, job.reason, job.kicked) == ("done", "local operator", "Shared account", 60)
    app.button(key=f"hide-{job.id}").click().run()
    assert not [button for button in app.button if button.key == f"hide-{job.id}"]


def test_after_a_kick_of_all_the_list_says_that_they_have_ended(app: AppTest, presence: Presence) -> None:
    log_in(presence, 3)
    log_in(presence, 1, "other")
    app.query_params["q"] = "user"
    kick_all(ask(app.run()), "3")
    assert [header.value for header in app.subheader] == [texts.EMPTIED_TITLE]
    assert texts.EMPTIED in words(app)
    app.button(key="refresh").click().run()
    assert texts.EMPTIED in words(app)
    app.text_input(key="q").set_value("nobody").run()
    assert [header.value for header in app.subheader] == [texts.NO_MATCH_TITLE]
    app.text_input(key="q").set_value("").run()
    presence.kick("other00", by="alex", reason="test")
    app.button(key="refresh").click().run()
    assert texts.EMPTIED in words(app), "not that no one has ever logged in"
    log_in(presence, 1, "late")
    app.button(key="refresh").click().run()
    assert uids(app) == ["late00"]


@pytest.mark.parametrize("typed", ["", "59", "6 0", "all"])
def test_the_number_must_be_typed_as_it_is(app: AppTest, presence: Presence, typed: str) -> None:
    users = log_in(presence, 3)
    kick_all(ask(app.run()), typed)
    assert texts.bulk_mistyped("3") in words(app)
    assert len(live(presence, users)) == 3


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_number_may_be_typed_with_the_separators_of_each_language(language: str) -> None:
    with in_language(language):
        for typed in (number(1_234_567), "1234567", "1 234 567"):
            assert is_number(typed, 1_234_567)
    assert not is_number("1234568", 1_234_567)


def test_a_bulk_kick_needs_a_reason(app: AppTest, presence: Presence) -> None:
    users = log_in(presence, 3)
    kick_all(ask(app.run()), "3", reason=" ")
    assert texts.REASON_MISSING in words(app)
    assert len(live(presence, users)) == 3


def test_a_single_match_is_not_called_all() -> None:
    assert texts.kick_all("1", matching=True, exact=True) == "Kick the session that matches…"
    assert texts.kick_all("1", matching=False, exact=True) == "Kick the session…"


def test_with_no_filter_it_is_everybody_of_the_list_that_was_seen(app: AppTest, presence: Presence) -> None:
    users = log_in(presence, 3)
    app.run()
    assert app.button(key="kick-all").label == texts.kick_all("3", matching=False, exact=True)
    late = log_in(presence, 2, "late")
    ask(app)
    assert texts.BULK_EVERYONE in words(app)
    kick_all(app, "3")
    assert live(presence, users) == []
    assert len(live(presence, late)) == 2


def test_ticked_rows_can_be_spared(app: AppTest, presence: Presence) -> None:
    users = log_in(presence, 5)
    tick(app.run(), 0, 1)
    ask(app)
    app.checkbox(key="bulk-keep-1").check().run()
    assert "**3** sessions of **3** people" in words(app)
    kick_all(app, "3")
    assert live(presence, users) == ["user03", "user04"]


def test_where_more_match_by_now_no_one_is_kicked_and_they_are_counted_again(app: AppTest, presence: Presence) -> None:
    users = log_in(presence, 3)
    app.query_params["q"] = "user"
    ask(app.run())
    earlier = {"uid": "user-moved-here", "login_at": time.time() - 60, "last_seen": time.time()}
    presence.login_many([earlier], imported=True)
    kick_all(app, "3")
    assert "because more sessions match now" in words(app)
    assert "**4** sessions of **4** people" in words(app)
    assert len(live(presence, users)) == 3
    assert not presence.jobs().items
    kick_all(app, "4")
    assert live(presence, users) == []
    assert not presence.is_online("user-moved-here")


def test_support_sees_the_limit_and_is_refused_inside_the_action(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = log_in(presence, 3)
    act_as(monkeypatch, SUPPORT)
    ask(app.run())
    assert texts.bulk_over("2") in words(app)
    assert not [area for area in app.text_area if area.label == texts.REASON]
    found = presence.preview_kick(SessionFilter(text="user"))
    with pytest.raises(Denied, match="Ask an admin"):
        bulk_kick.start(open_store(), found, (), WHY)
    assert len(live(presence, users)) == 3
    [denied] = presence.audit(by="sam")
    assert (denied.action, denied.reason) == ("denied", "3 sessions, of 2 allowed")


def test_an_outage_while_counting_is_shown_and_can_be_tried_again(
    app: AppTest, server: Server, presence: Presence
) -> None:
    log_in(presence, 3)
    app.run()
    server.pause()
    app.button(key="kick-all").click().run()
    assert [button for button in app.button if button.key == "bulk-again"]
    server.resume()
    open_store().counts(fresh=True)
    app.button(key="bulk-again").click().run()
    assert "**3** sessions of **3** people" in words(app)


def test_sessions_and_people_are_counted_apart(presence: Presence, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = refs(*(presence.login("dana", device=device) for device in ("Mac", "iPad", "iPhone")))
    presence.login("eli")
    found = presence.preview_kick(SessionFilter(logged_in_after=1))
    people = bulk_kick.count_people(presence, found, (), 3)
    assert (found.total, people.count, people.is_exact, len(people.sample)) == (4, 2, True, 3)
    assert bulk_kick.count_people(presence, found, kept, 3).count == 1
    monkeypatch.setattr(bulk_kick, "PAGE", 2)
    monkeypatch.setattr(bulk_kick, "MAX_READ", 2)
    assert not bulk_kick.count_people(presence, found, (), 3).is_exact
    assert texts.number_of_people(1, "1", False) == "at least **1** person"


# -- A large bulk kick ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("total", "pace"), [(1, None), (100, None), (101, 200), (120_000, 200), (120_001, 201), (1_000_000, 1_667)]
)
def test_a_large_bulk_kick_is_paced_and_still_through_in_ten_minutes(total: int, pace: int | None) -> None:
    assert bulk_kick.pace_of(total) == pace


def test_more_than_a_hundred_start_after_ten_seconds_and_stop_kicks_none(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_kick, "DELAYED_FROM", 3)
    users = log_in(presence, 3)
    ask(app.run())
    assert texts.bulk_pace(10, "200", "10 s") in " ".join(note.value for note in app.caption)
    kick_all(app, "3")
    [job] = presence.jobs().items
    assert (job.state, job.pace, job.kicked) == ("running", 200, 0)
    assert job.not_before is not None
    assert (job.not_before - job.created).total_seconds() == 10
    assert "Bulk kick starts in " in words(app)
    assert app.button(key=f"cancel-{job.id}").label == texts.BULK_JOB_STOP
    app.button(key=f"cancel-{job.id}").click().run()
    assert f"{texts.bulk_job_result('cancelled', '0', '3')} {texts.bulk_job_left(3, '3')}" in words(app)
    assert len(live(presence, users)) == 3
    assert bulk_kick.wait_for(job.id, 30), "its runner has ended too"


def test_the_audit_the_list_and_the_result_of_a_bulk_kick_have_the_same_figures(presence: Presence) -> None:
    users = log_in(presence, 3)
    job = presence.start_kick(SessionFilter(text="user"), by="alex", reason="Clean-up", expected=3)
    presence.logout(users[0].session.uid, users[0].session.session_id)
    presence.run_job(job.id)
    known = presence.job(job.id)
    assert known is not None
    assert (known.kicked, known.total, known.left) == (2, 3, 1)
    assert bulk_kick_progress.result(known) == (
        f"{texts.bulk_job_result('done', '2', '3')} {texts.bulk_job_missed(1, '1')}"
    )
    assert presence.audit().items[0].outcome == f"job {job.id}: 2 of 3 sessions ended"
    assert row_details.share(known) == 1.0
    assert {"kicked", "total"} <= set(history_export.COLUMNS["jobs"])


# -- Jobs --------------------------------------------------------------------------------------------------------------


def test_anybodys_job_is_shown_and_can_be_resumed_to_its_end(app: AppTest, presence: Presence) -> None:
    users = log_in(presence, 3)
    job = paused_job(presence)
    app.run()
    assert app.button(key=f"resume-{job.id}").label == texts.RESUME
    app.button(key=f"resume-{job.id}").click().run()
    assert bulk_kick.wait_for(job.id, 30)
    assert live(presence, users) == []
    bulk_kick.jobs(open_store(), fresh=True)
    assert texts.bulk_job_result("done", "3", "3") in words(app.run())


def test_a_cancelled_job_says_what_it_left(app: AppTest, presence: Presence) -> None:
    users = log_in(presence, 3)
    job = paused_job(presence)
    app.run().button(key=f"cancel-{job.id}").click().run()
    assert f"{texts.bulk_job_result('cancelled', '0', '3')} {texts.bulk_job_left(3, '3')}" in words(app)
    assert len(live(presence, users)) == 3
    assert presence.audit(by="local operator").items[0].action == "kick_where_cancel"


def test_support_may_cancel_a_large_job_but_not_resume_it(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(presence, 3)
    job = paused_job(presence)
    act_as(monkeypatch, SUPPORT)
    app.run().button(key=f"resume-{job.id}").click().run()
    assert "Ask an admin" in toasts(app)
    assert (presence.job(job.id) or job).state == "paused"
    app.button(key=f"cancel-{job.id}").click().run()
    assert (presence.job(job.id) or job).state == "cancelled"


def test_a_job_without_a_runner_is_taken_up(
    server: Server, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = log_in(presence, 3)
    job = presence.start_kick(SessionFilter(text="user"), by="alex", reason="Clean-up", expected=3)
    store = Store(lambda: Presence.from_url(server.url, Settings(timeout=PATIENT)))
    bulk_kick.jobs(store)
    assert len(live(presence, users)) == 3, "a worker may just be about to begin"
    monkeypatch.setattr(bulk_kick, "STALLED_AFTER", -1.0)
    bulk_kick.jobs(store, fresh=True)
    assert bulk_kick.wait_for(job.id, 30)
    assert live(presence, users) == []
    store.close()


# -- Export ------------------------------------------------------------------------------------------------------------


def file_of(app: AppTest) -> list[list[str]]:
    assert not app.exception
    raw = app.session_state["export-request"].file
    return list(csv.reader(io.StringIO(raw.decode("utf-8-sig"))))


def test_the_export_holds_what_matches_and_is_audited(app: AppTest, presence: Presence) -> None:
    logins = log_in(presence, 3)
    log_in(presence, 2, "other")
    app.query_params["q"] = "user"
    app.run().button(key="export").click().run()
    header, *rows = file_of(app)
    assert header == list(csv_export.SESSION_COLUMNS)
    assert [row[0] for row in rows] == ["user02", "user01", "user00"]
    login = logins[2].session
    assert rows[0][:4] == ["user02", login.session_id, "Person 2", "Mac"]
    assert rows[0][9] == login.login_at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    text = app.session_state["export-request"].file.decode()
    assert not [login for login in logins if login.token.rpartition(".")[2] in text]
    [entry] = presence.audit()
    assert (entry.action, entry.by) == ("export", "local operator")
    assert entry.outcome == '3 sessions exported, filter {"text": "user"}'


def test_there_is_no_file_where_the_export_cannot_be_written_down(
    app: AppTest, server: Server, presence: Presence
) -> None:
    log_in(presence, 3)
    app.run()
    server.command("SET", presence.internal.context.keys.shards[0].audit, "another program's")
    app.button(key="export").click().run()
    assert texts.ERROR_DATA in words(app)
    assert app.session_state["export-request"].file is None
    assert [button for button in app.button if button.key == "export-retry"]


def test_a_file_ends_at_the_most_and_says_so(app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_export, "MAX_ROWS", 4)
    monkeypatch.setattr(csv_export, "PAGE", 3)
    log_in(presence, 6)
    app.run().button(key="export").click().run()
    assert len(file_of(app)) == 5
    assert texts.export_most("4") in words(app)


def test_masked_columns_are_masked_in_the_file(presence: Presence) -> None:
    login = presence.login("dana", name="Dana Novak", ip="192.0.2.7")
    text = csv_export.csv(csv_export.SESSION_COLUMNS, [login.session], header=False, masked=frozenset({"name", "ip"}))
    assert "Novak" not in text
    assert "192.0.2.7" not in text
    assert text.count(HIDDEN) == 2


def test_the_file_has_the_places_or_masks_them_with_the_address(server: Server, tmp_path: Path) -> None:
    places = str(
        write_place_file(tmp_path / "places.mmdb", {"192.0.2.0/24": city("FR", "=1+1", (46, 5), 64500, "Net")})
    )
    with Presence.from_url(server.url, Settings(timeout=0.5, place_file=places)) as presence:
        session = presence.login("dana", ip="192.0.2.7").session
    [row] = csv.reader(io.StringIO(csv_export.csv(csv_export.SESSION_COLUMNS, [session], header=False)))
    at = csv_export.SESSION_COLUMNS.index("country")
    assert row[at:] == ["FR", "'=1+1", "Net", "64500", *["False"] * len(FLAGS)]
    masked = csv_export.csv(csv_export.SESSION_COLUMNS, [session], header=False, masked=frozenset({"ip"}))
    [cells] = csv.reader(io.StringIO(masked))
    assert not {"FR", "'=1+1", "Net", "64500"} & {*cells}, "not in the text: an id may have these letters"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("=1+1", "'=1+1"),
        ("+49 30", "'+49 30"),
        ("-1", "'-1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'\t=1"),
        ("\r=1", "'\r=1"),
        ("＝1", "'＝1"),
        ("a=1", "a=1"),
        ("a;=1", "a;'=1"),  # where a comma is the decimal point, a semicolon separates cells
        (";-1;@x", ";'-1;'@x"),
        ("a; b", "a; b"),
        (" =1", "' =1"),
        ("\u00a0=1", "'\u00a0=1"),
        ("\u3000+1", "'\u3000+1"),
        ("\ufeff=1", "'\ufeff=1"),
        ("\u200b=1", "'\u200b=1"),
        ("a; =1", "a;' =1"),  # as aliases are joined
        ("a; b=1", "a; b=1"),
        ("Dana", "Dana"),
        ("", ""),
    ],
)
def test_no_cell_is_a_formula(text: str, written: str) -> None:
    assert safe_cell(text) == written


def test_a_hostile_name_leaves_the_file_as_one_inert_cell(presence: Presence) -> None:
    login = presence.login("mallory", name='=HYPERLINK("http://x.invalid","a"),\'', device="@SUM(1)")
    [row] = csv.reader(io.StringIO(csv_export.csv(csv_export.SESSION_COLUMNS, [login.session], header=False)))
    assert row[2:4] == ['\'=HYPERLINK("http://x.invalid","a"),\'', "'@SUM(1)"]


def test_the_panel_stays_while_redis_is_away(app: AppTest, server: Server, presence: Presence) -> None:
    log_in(presence, 3)
    job = paused_job(presence)
    app.run()
    server.pause()
    open_again(app)
    assert app.button(key=f"resume-{job.id}").disabled
