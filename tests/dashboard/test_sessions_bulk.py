"""The Sessions page: all that match at once, as a job to kick them and as a file to keep."""

from __future__ import annotations

import csv
import io
import time
from datetime import UTC

import pytest
from streamlit.testing.v1 import AppTest

from presence_core import Job, Login, Presence, SessionFilter
from presence_dashboard import access, bulk, exports, texts
from presence_dashboard.access import Actor, Denied
from presence_dashboard.actions import Why
from presence_dashboard.roles import HIDDEN
from presence_dashboard.store import Store, open_store
from tests.dashboard.conftest import IMPATIENT, log_in, open_anew, tick, toasts, uids
from tests.servers import Server

SUPPORT = Actor("sam", "support", bulk_limit=2)
WHY = Why("Shared account", "Please sign in again.", "T-1")


def live(presence: Presence, logins: list[Login]) -> list[str]:
    return [login.session.uid for login in logins if presence.validate(login.token, touch=False)]


def ask(app: AppTest) -> AppTest:
    app.button(key="kick-all").click().run()
    assert not app.exception
    return app


def kick_all(app: AppTest, typed: str, reason: str = "Shared account") -> AppTest:
    number = app.session_state["bulk-number"]
    app.text_area(key=f"bulk-reason-{number}").set_value(reason)
    app.text_input(key=f"bulk-typed-{number}").set_value(typed)
    return app.button(key=f"bulk-confirm-{number}").click().run()


def words(app: AppTest) -> str:
    assert not app.exception
    kinds = (app.markdown, app.error, app.warning, app.info)
    return " | ".join(element.value for kind in kinds for element in kind)


def act_as(monkeypatch: pytest.MonkeyPatch, actor: Actor) -> None:
    """Somebody else is signed in."""
    monkeypatch.setattr(access, "current", lambda *, touch=True: actor)
    monkeypatch.setattr(access, "require", lambda right, *, what, uid=None: actor)


def paused_job(presence: Presence, by: str = "alex") -> Job:
    """Somebody else's, that has ended nobody yet."""
    asked = SessionFilter(text="user")
    job = presence.start_kick(asked, by=by, reason="Clean-up", expected=50)
    return presence.pause_job(job.id, by=by)


# -- Kicking all that match --------------------------------------------------------------------------------------------


def test_all_that_match_are_kicked_and_nobody_else(app: AppTest, presence: Presence) -> None:
    users, others = log_in(presence, 60), log_in(presence, 3, "other")
    app.query_params["q"] = "user"
    app.run()
    assert app.button(key="kick-all").label == texts.kick_all("60", matching=True, exact=False)
    ask(app)
    assert texts.bulk_found(60, "60", "", "").split(",")[0] in words(app)
    assert len(app.dataframe[1].value) == 5
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


@pytest.mark.parametrize("typed", ["", "59", "6 0", "all"])
def test_the_number_must_be_typed_as_it_is(app: AppTest, presence: Presence, typed: str) -> None:
    users = log_in(presence, 3)
    kick_all(ask(app.run()), typed)
    assert texts.bulk_mistyped("3") in words(app)
    assert len(live(presence, users)) == 3


def test_a_bulk_kick_needs_a_reason(app: AppTest, presence: Presence) -> None:
    users = log_in(presence, 3)
    kick_all(ask(app.run()), "3", reason=" ")
    assert texts.REASON_MISSING in words(app)
    assert len(live(presence, users)) == 3


def test_with_no_filter_it_is_everybody_of_the_list_that_was_seen(app: AppTest, presence: Presence) -> None:
    users = log_in(presence, 3)
    app.run()
    assert app.button(key="kick-all").label == texts.kick_all("3", matching=False, exact=True)
    late = log_in(presence, 2, "late")
    ask(app)
    assert texts.BULK_EVERYBODY in words(app)
    kick_all(app, "3")
    assert live(presence, users) == []
    assert len(live(presence, late)) == 2


def test_ticked_rows_can_be_spared(app: AppTest, presence: Presence) -> None:
    users = log_in(presence, 5)
    tick(app.run(), 0, 1)
    ask(app)
    app.checkbox(key="bulk-spare-1").check().run()
    assert "**3** sessions match" in words(app)
    kick_all(app, "3")
    assert live(presence, users) == ["user03", "user04"]


def test_where_more_match_by_now_nobody_is_kicked_and_they_are_counted_anew(app: AppTest, presence: Presence) -> None:
    users = log_in(presence, 3)
    app.query_params["q"] = "user"
    ask(app.run())
    earlier = {"uid": "user-moved-here", "login_at": time.time() - 60, "last_seen": time.time()}
    presence.login_many([earlier], imported=True)
    kick_all(app, "3")
    assert "more match by now" in words(app)
    assert "**4** sessions match" in words(app)
    assert len(live(presence, users)) == 3
    assert not presence.jobs().items
    kick_all(app, "4")
    assert live(presence, users) == []
    assert not presence.is_online("user-moved-here")


def test_support_is_told_the_most_and_is_refused_inside_the_action(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = log_in(presence, 3)
    act_as(monkeypatch, SUPPORT)
    ask(app.run())
    assert texts.bulk_over("2") in words(app)
    assert not [area for area in app.text_area if area.label == texts.REASON]
    found = presence.preview_kick(SessionFilter(text="user"))
    with pytest.raises(Denied, match="ask an admin"):
        bulk.start(open_store(), found, (), WHY)
    assert len(live(presence, users)) == 3
    [denied] = presence.audit(by="sam")
    assert (denied.action, denied.reason) == ("denied", "3 sessions, of 2 allowed")


def test_an_outage_while_counting_is_told_and_can_be_tried_again(
    app: AppTest, server: Server, presence: Presence
) -> None:
    log_in(presence, 3)
    app.run()
    server.pause()
    app.button(key="kick-all").click().run()
    assert [button for button in app.button if button.key == "bulk-again"]
    server.resume()
    open_store().counts(anew=True)
    app.button(key="bulk-again").click().run()
    assert "**3** sessions match" in words(app)


# -- Jobs --------------------------------------------------------------------------------------------------------------


def test_anybodys_job_is_shown_and_can_be_resumed_to_its_end(app: AppTest, presence: Presence) -> None:
    users = log_in(presence, 3)
    job = paused_job(presence)
    app.run()
    assert app.button(key=f"resume-{job.id}").label == texts.BULK_JOB_RESUME
    app.button(key=f"resume-{job.id}").click().run()
    assert bulk.wait_for(job.id, 30)
    assert live(presence, users) == []
    bulk.jobs(open_store(), anew=True)
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
    assert "ask an admin" in toasts(app)
    assert (presence.job(job.id) or job).state == "paused"
    app.button(key=f"cancel-{job.id}").click().run()
    assert (presence.job(job.id) or job).state == "cancelled"


def test_a_job_that_nobody_works_at_is_taken_up(
    server: Server, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = log_in(presence, 3)
    job = presence.start_kick(SessionFilter(text="user"), by="alex", reason="Clean-up", expected=3)
    store = Store(lambda: Presence.from_url(server.url, IMPATIENT))
    bulk.jobs(store)
    assert len(live(presence, users)) == 3, "a worker may just be about to begin"
    monkeypatch.setattr(bulk, "ASLEEP", -1.0)
    bulk.jobs(store, anew=True)
    assert bulk.wait_for(job.id, 30)
    assert live(presence, users) == []
    store.close()


# -- Export ------------------------------------------------------------------------------------------------------------


def file_of(app: AppTest) -> list[list[str]]:
    assert not app.exception
    raw = app.session_state["export-ask"].file
    return list(csv.reader(io.StringIO(raw.decode("utf-8-sig"))))


def test_the_export_holds_what_matches_and_is_audited(app: AppTest, presence: Presence) -> None:
    logins = log_in(presence, 3)
    log_in(presence, 2, "other")
    app.query_params["q"] = "user"
    app.run().button(key="export").click().run()
    header, *rows = file_of(app)
    assert header == list(exports.SESSION_COLUMNS)
    assert [row[0] for row in rows] == ["user02", "user01", "user00"]
    login = logins[2].session
    assert rows[0][:4] == ["user02", login.session_id, "Person 2", "Mac"]
    assert rows[0][9] == login.login_at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    text = app.session_state["export-ask"].file.decode()
    assert not [one for one in logins if one.token.rpartition(".")[2] in text]
    [entry] = presence.audit()
    assert (entry.action, entry.by) == ("export", "local operator")
    assert entry.outcome == '3 sessions exported: {"text": "user"}'


def test_there_is_no_file_where_the_export_cannot_be_written_down(
    app: AppTest, server: Server, presence: Presence
) -> None:
    log_in(presence, 3)
    app.run()
    server.command("SET", presence._ctx.keys.shards[0].audit, "another program's")
    app.button(key="export").click().run()
    assert texts.ERROR_DATA in words(app)
    assert app.session_state["export-ask"].file is None
    assert [button for button in app.button if button.key == "export-retry"]


def test_a_file_ends_at_the_most_and_says_so(app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exports, "MOST", 4)
    monkeypatch.setattr(exports, "PAGE", 3)
    log_in(presence, 6)
    app.run().button(key="export").click().run()
    assert len(file_of(app)) == 5
    assert texts.export_most("4") in words(app)


def test_masked_columns_are_masked_in_the_file(presence: Presence) -> None:
    login = presence.login("dana", name="Dana Novak", ip="192.0.2.7")
    text = exports.csv(exports.SESSION_COLUMNS, [login.session], header=False, masked=frozenset({"name", "ip"}))
    assert "Novak" not in text
    assert "192.0.2.7" not in text
    assert text.count(HIDDEN) == 2


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
        ("a;=1", "a;'=1"),  # where a comma is a decimal point, a semicolon parts cells
        (";-1;@x", ";'-1;'@x"),
        ("a; b", "a; b"),
        ("Dana", "Dana"),
        ("", ""),
    ],
)
def test_no_cell_is_a_formula(text: str, written: str) -> None:
    assert exports.cell(text) == written


def test_a_hostile_name_leaves_the_file_as_one_inert_cell(presence: Presence) -> None:
    login = presence.login("mallory", name='=HYPERLINK("http://x.invalid","a"),\'', device="@SUM(1)")
    [row] = csv.reader(io.StringIO(exports.csv(exports.SESSION_COLUMNS, [login.session], header=False)))
    assert row[2:4] == ['\'=HYPERLINK("http://x.invalid","a"),\'', "'@SUM(1)"]


def test_the_panel_stays_while_redis_is_away(app: AppTest, server: Server, presence: Presence) -> None:
    log_in(presence, 3)
    job = paused_job(presence)
    app.run()
    server.pause()
    open_anew(app)
    assert app.button(key=f"resume-{job.id}").disabled
