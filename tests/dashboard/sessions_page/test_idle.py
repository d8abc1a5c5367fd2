"""A Sessions page that stays open: its texts stay true, and its buttons work."""

from __future__ import annotations

import dataclasses
import json
import re
import time
from typing import Any

import pytest
from streamlit.proto.WidgetStates_pb2 import WidgetState
from streamlit.testing.v1 import AppTest

from presence_core import Presence, SessionFilter, Settings
from presence_dashboard import texts
from presence_dashboard.actions import bulk_kick
from presence_dashboard.data import session_list as listing_module
from presence_dashboard.data.store import open_store
from presence_dashboard.views.sessions import session_table
from tests.dashboard.conftest import log_in, open_again, press, send, table, tables, tick, toasts, uids
from tests.support.servers import Server


@pytest.fixture
def looking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each run checks which rows have ended, as a refresh does."""
    monkeypatch.setattr(listing_module, "KEEP", 0.0)


def captions(app: AppTest) -> str:
    return " | ".join(caption.value for caption in app.caption)


# -- Rows that have ended ----------------------------------------------------------------------------------------------


def test_rows_that_have_ended_stay_where_they_are_and_say_why(
    app: AppTest, presence: Presence, server: Server, looking: None
) -> None:
    logins = log_in(presence, 5)
    before = uids(app.run())
    key = app.session_state["session-list"].key
    assert "status" not in table(app).columns
    presence.kick("user01", by="alex", reason="test")
    presence.logout("user02", logins[2].session.session_id)
    with Presence.from_url(server.url, Settings(max_sessions=1)) as strict:
        strict.login("user03")
    open_again(app)
    assert uids(app) == before, "no row moves"
    assert app.session_state["session-list"].key == key
    ended = dict(zip(uids(app), table(app).ended, strict=True))
    assert [ended["user04"], ended["user00"]] == ["", ""]
    for uid, why in (("user01", "Kicked by alex"), ("user02", "Signed out"), ("user03", "Replaced by a newer login")):
        assert re.fullmatch(why + r", \d\d:\d\d:\d\d", ended[uid])
    assert table(app).column("status") == table(app).ended
    app.button(key="refresh").click().run()
    assert uids(app) == ["user03", "user04", "user00"]
    assert "status" not in table(app).columns


def test_a_session_past_its_deadline_is_shown_as_expired_and_a_forgotten_one_as_ended(
    app: AppTest, presence: Presence, server: Server, looking: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = presence.login("short", idle_timeout=60, name="Short").session
    presence.login("lost")
    app.run()
    server.command("DEL", presence_key(presence, table(app).ref("lost")))
    over = round(short.expires_at.timestamp() * 1000) + 1
    monkeypatch.setattr(open_store().presence.internal.context, "now", str(over))
    app.run()
    ended = {uid: why.partition(",")[0] for uid, why in zip(uids(app), table(app).ended, strict=True)}
    assert ended == {"lost": texts.ENDED_ROW, "short": "Expired"}


def presence_key(presence: Presence, ref: str) -> str:
    """The key of a record."""
    return f"{{{presence.settings.namespace}:1:0}}:session:{ref}"


def test_the_times_of_the_rows_are_kept_up_to_date(app: AppTest, presence: Presence, looking: None) -> None:
    [login] = log_in(presence, 1)
    app.run()
    [before] = table(app).column("seen")
    time.sleep(0.01)
    assert presence.validate(login.token)
    open_again(app)
    [after] = table(app).column("seen")
    assert after > before
    assert table(app).column("expires") == [round(presence.sessions("user00")[0].expires_at.timestamp() * 1000)]


def test_a_ticked_row_that_has_ended_is_not_kicked_and_is_counted_apart(
    app: AppTest, presence: Presence, looking: None
) -> None:
    log_in(presence, 3)
    tick(app.run(), 0, 1)
    presence.kick("user02", by="alex", reason="test")
    app.run()
    assert app.button(key="kick-selected").label == texts.kick_selected(1)
    assert texts.selected_hint(1, 1, 0, 1) in captions(app)
    app.button(key="kick-selected").click().run()
    assert "user01" in [text.value for text in app.text]


def test_an_outage_marks_no_row_as_ended(app: AppTest, presence: Presence, server: Any, looking: None) -> None:
    log_in(presence, 2)
    app.run()
    server.pause()
    open_again(app)
    assert table(app).ended == ["", ""]
    server.resume()
    open_again(app)
    assert table(app).ended == ["", ""]


# -- Times -------------------------------------------------------------------------------------------------------------


def test_the_browser_learns_how_long_an_age_is_true(app: AppTest, presence: Presence, server: Server) -> None:
    """It shows an age only while the rows are read every so many seconds, and else the time of day."""
    [login] = log_in(presence, 1)
    shown = table(app.run())
    assert shown.data["every"] == 5
    assert shown.column("login") == [round(login.session.login_at.timestamp() * 1000)]
    assert abs(shown.data["now"] / 1000 - time.time()) < 5
    assert shown.data["zone"] == "UTC"
    rows = app.session_state["session-list"].rows
    assert texts.rows_as_of(f"{rows.as_of:%H:%M:%S}", None, None) in captions(app)
    app.selectbox(key="every").select(0).run()
    assert table(app).data["every"] == 0
    app.selectbox(key="every").select(10).run()
    assert table(app).data["every"] == 10
    server.pause()
    open_again(app)
    assert table(app).data["every"] == 0
    server.resume()


def test_a_page_that_does_not_renew_itself_says_no_age(app: AppTest, presence: Presence) -> None:
    log_in(presence, 1)
    app.run()
    listing = app.session_state["session-list"]
    listing.rows = dataclasses.replace(listing.rows, read=time.monotonic() - 600)
    app.run()
    assert "10 min ago" in captions(app)
    app.selectbox(key="every").select(0).run()
    assert " ago" not in captions(app)


# -- Ticking what is shown ---------------------------------------------------------------------------------------------


def test_ticks_survive_paging_and_a_refresh_and_a_button_clears_them(app: AppTest, presence: Presence) -> None:
    log_in(presence, 60)
    tick(app.run(), 0, 2)
    app.button(key="older").click().run()
    assert table(app).ticked == []
    tick(app, 1)
    assert texts.selected_hint(3, 3, 2, 0) in captions(app)
    assert app.button(key="kick-selected").label == texts.kick_selected(3)
    app.button(key="refresh").click().run()
    assert table(app).ticked == [1]
    app.button(key="newest").click().run()
    assert table(app).ticked == [0, 2]
    log_in(presence, 1, "late")
    app.button(key="refresh").click().run()
    assert table(app).ticked == [1, 3], "the same sessions"
    tick(app, 3)
    assert texts.selected_hint(2, 2, 1, 0) in captions(app)
    app.button(key="select-none").click().run()
    assert table(app).ticked == []
    assert app.button(key="kick-selected").disabled
    assert "select-none" not in [button.key for button in app.button]


def test_ticks_end_with_the_search_that_showed_them(app: AppTest, presence: Presence) -> None:
    log_in(presence, 3)
    tick(app.run(), 0)
    app.text_input(key="q").set_value("user01").run()
    assert app.button(key="kick-selected").disabled
    app.text_input(key="q").set_value("").run()
    assert table(app).ticked == []


def test_ticks_of_rows_that_are_no_longer_shown_count_for_nothing(app: AppTest, presence: Presence) -> None:
    log_in(presence, 30)
    app.run()
    app.selectbox(key="page-size").select(25).run()
    before = table(app)
    app.button(key="older").click().run()
    now = table(app)
    for shown, refs in (
        (before, [before.data["rows"][0]["ref"]]),
        (before, [now.data["rows"][0]["ref"]]),
        (now, [before.data["rows"][0]["ref"], "user99:no-such-session"]),
    ):
        ticks = {"list": shown.data["list"], "sequence": 7, "refs": refs}
        send(app, WidgetState(id=now.id, json_value=json.dumps({"ticks": ticks})))
        assert app.button(key="kick-selected").disabled
    assert table(app).data["sequence"] == 7, "the browser learns that they have been heard"


def test_no_row_that_has_ended_can_be_ticked(app: AppTest, presence: Presence, looking: None) -> None:
    log_in(presence, 3)
    app.run()
    presence.kick("user01", by="alex", reason="test")
    app.run()
    tick(app, 0, 1, 2)
    assert table(app).ticked == [0, 2]
    assert app.button(key="kick-selected").label == texts.kick_selected(2)


def test_more_than_the_most_are_not_selected(app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_table, "MAX_SELECTED", 2)
    log_in(presence, 3)
    tick(app.run(), 0, 1, 2)
    assert table(app).ticked == [0, 1]
    assert "At most" in toasts(app)


def test_support_select_no_more_than_they_may_kick_at_once(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRESENCE_DASHBOARD_ROLE", "support")
    monkeypatch.setenv("PRESENCE_DASHBOARD_BULK", "2")
    log_in(presence, 3)
    tick(app.run(), 0, 1, 2)
    assert table(app).ticked == [0, 1]
    assert texts.too_many_at_once(2, 3) in toasts(app)


def test_what_kicks_all_that_match_says_so(app: AppTest, presence: Presence) -> None:
    log_in(presence, 3)
    app.query_params["q"] = "user"
    assert app.run().button(key="kick-all").label.startswith("Kick all")
    assert "Select all" not in " ".join(button.label for button in app.button)


# -- After a bulk kick of one's own ------------------------------------------------------------------------------------


def _begun(app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch) -> str:
    """Kick all by a job that is still running when the page is drawn again."""
    monkeypatch.setattr(bulk_kick, "run_in_background", lambda _store, _job_id: None)
    app.run().button(key="kick-all").click().run()
    app.text_area(key="bulk-reason-1").set_value("Clean-up")
    app.text_input(key="bulk-typed-1").set_value("3")
    monkeypatch.setattr(bulk_kick, "wait_for", lambda _job_id, _seconds: False)
    app.button(key="bulk-confirm-1").click().run()
    assert texts.BULK_STARTED in toasts(app)
    assert len(uids(app)) == 3
    [job] = presence.jobs()
    return job.id


def test_the_list_is_read_again_when_a_bulk_kick_of_this_tab_has_ended(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(presence, 3)
    job_id = _begun(app, presence, monkeypatch)
    presence.run_job(job_id)
    bulk_kick.jobs(open_store(), fresh=True)
    app.run()
    assert not tables(app), "no row is left"
    generation = app.session_state["session-list"].generation
    app.run()
    assert app.session_state["session-list"].generation == generation, "once"


def test_the_list_is_read_again_though_rows_are_ticked_and_ticks_of_ended_rows_go(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch, looking: None
) -> None:
    log_in(presence, 3)
    job_id = _begun(app, presence, monkeypatch)
    late = log_in(presence, 1, "late")
    app.session_state["session-list"].refresh()
    tick(app.run(), 0, 1)
    presence.run_job(job_id)
    bulk_kick.jobs(open_store(), fresh=True)
    app.run()
    assert uids(app) == ["late00"]
    assert table(app).ticked == [0]
    assert app.button(key="kick-selected").label == texts.kick_selected(1)
    assert presence.validate(late[0].token)


def test_the_list_is_not_read_again_below_an_open_dialog_but_behind_it(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch, looking: None
) -> None:
    log_in(presence, 3)
    job_id = _begun(app, presence, monkeypatch)
    press(app, "kick", table(app).ref("user01"))
    presence.run_job(job_id)
    bulk_kick.jobs(open_store(), fresh=True)
    app.run()
    assert len(table(app).ended) == 3
    assert all(table(app).ended)
    next(button for button in app.button if button.label == texts.CANCEL).click().run()
    app.run()
    assert not tables(app)


def test_a_job_of_another_member_of_staff_moves_no_row(app: AppTest, presence: Presence, looking: None) -> None:
    log_in(presence, 3)
    app.run()
    time.sleep(0.002)
    presence.kick_where(SessionFilter(text="user"), by="alex", reason="Clean-up", expected=3)
    bulk_kick.jobs(open_store(), fresh=True)
    app.run()
    assert [why.startswith("Kicked by alex, ") for why in table(app).ended] == [True] * 3
