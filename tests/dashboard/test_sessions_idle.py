"""The Sessions page that is left open: what it says stays true, and what it offers can be done."""

from __future__ import annotations

import dataclasses
import json
import time
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from presence_core import Presence, SessionFilter
from presence_dashboard import bulk, texts
from presence_dashboard import listing as listing_module
from presence_dashboard.store import open_store
from tests.dashboard.conftest import log_in, open_anew, tick, toasts, uids


@pytest.fixture
def looking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each run looks which rows have ended, as a tick does."""
    monkeypatch.setattr(listing_module, "KEEP", 0.0)


def column(app: AppTest, name: str) -> list[Any]:
    assert not app.exception
    return list(app.dataframe[0].value[name])


def captions(app: AppTest) -> str:
    return " | ".join(caption.value for caption in app.caption)


def ticked(app: AppTest) -> list[int]:
    state = app.session_state[f"table-{app.session_state['listing'].key}"]
    return list(state["selection"]["rows"])


# -- Rows that have ended ----------------------------------------------------------------------------------------------


def test_rows_that_have_ended_are_marked_where_they_are_and_have_no_kick(
    app: AppTest, presence: Presence, looking: None
) -> None:
    log_in(presence, 4)
    before = uids(app.run())
    key = app.session_state["listing"].key
    assert "status" not in app.dataframe[0].proto.column_order
    presence.kick("user01", by="alex", reason="test")
    log_in(presence, 1, "late")
    open_anew(app)
    assert uids(app) == before, "no row moves"
    assert app.session_state["listing"].key == key, "and no tick is lost"
    assert column(app, "status") == ["", "", texts.ENDED_ROW, ""]
    assert [label == texts.KICK for label in column(app, "kick")] == [True, True, False, True]
    assert "status" in app.dataframe[0].proto.column_order
    app.button(key="refresh").click().run()
    assert uids(app) == ["late00", "user03", "user02", "user00"]
    assert "status" not in app.dataframe[0].proto.column_order


def test_a_ticked_row_that_has_ended_is_not_kicked_and_is_counted_apart(
    app: AppTest, presence: Presence, looking: None
) -> None:
    log_in(presence, 3)
    tick(app.run(), 0, 1)
    presence.kick("user02", by="alex", reason="test")
    app.run()
    assert app.button(key="kick-selected").label == texts.kick_selected(1)
    assert texts.selected_hint(1, 1, 1) in captions(app)
    app.button(key="kick-selected").click().run()
    assert "user01" in [text.value for text in app.text]


def test_an_outage_marks_no_row_as_ended(app: AppTest, presence: Presence, server: Any, looking: None) -> None:
    log_in(presence, 2)
    app.run()
    server.pause()
    open_anew(app)
    assert column(app, "status") == ["", ""]
    server.resume()
    open_anew(app)
    assert column(app, "status") == ["", ""]


# -- Times -------------------------------------------------------------------------------------------------------------


def test_no_time_in_the_list_is_relative(app: AppTest, presence: Presence) -> None:
    log_in(presence, 1)
    config = json.loads(app.run().dataframe[0].proto.columns)
    formats = {name: config[name]["type_config"].get("format") for name in ("login", "login_exact", "seen", "expires")}
    assert all("HH:mm:ss" in (shape or "") for shape in formats.values()), formats
    rows = app.session_state["listing"].rows
    assert texts.rows_as_of(f"{rows.as_of:%H:%M:%S}", None, None) in captions(app)
    assert " ago" not in captions(app)


def test_a_page_that_does_not_renew_itself_says_no_age(app: AppTest, presence: Presence) -> None:
    log_in(presence, 1)
    app.run()
    listing = app.session_state["listing"]
    listing.rows = dataclasses.replace(listing.rows, read=time.monotonic() - 600)
    app.run()
    assert "10 min ago" in captions(app)
    app.selectbox(key="every").select(0).run()
    assert " ago" not in captions(app)


# -- Ticking what is shown ---------------------------------------------------------------------------------------------


def test_one_button_ticks_the_rows_that_are_shown_and_unticks_them(app: AppTest, presence: Presence) -> None:
    log_in(presence, 60)
    app.run()
    assert app.button(key="select-rows").label == texts.select_rows(50, 0)
    app.button(key="select-rows").click().run()
    assert ticked(app) == list(range(50))
    assert texts.selected_hint(50, 50, 0) in captions(app)
    assert app.button(key="kick-selected").label == texts.kick_selected(50)
    assert app.button(key="select-rows").label == texts.SELECT_NONE
    app.button(key="select-rows").click().run()
    assert ticked(app) == []
    assert app.button(key="kick-selected").disabled


def test_it_ticks_no_row_that_has_ended(app: AppTest, presence: Presence, looking: None) -> None:
    log_in(presence, 3)
    app.run()
    presence.kick("user01", by="alex", reason="test")
    app.run()
    assert app.button(key="select-rows").label == texts.select_rows(2, 1)
    app.button(key="select-rows").click().run()
    assert ticked(app) == [0, 2]
    assert app.button(key="select-rows").label == texts.SELECT_NONE


def test_what_kicks_all_that_match_says_so(app: AppTest, presence: Presence) -> None:
    log_in(presence, 3)
    app.query_params["q"] = "user"
    assert app.run().button(key="kick-all").label.startswith("Kick all")
    assert "Select all" not in " ".join(button.label for button in app.button)


def test_where_there_are_more_pages_the_page_says_what_a_header_sorts(app: AppTest, presence: Presence) -> None:
    log_in(presence, 30)
    assert texts.SORT_NOTE not in captions(app.run())
    app.selectbox(key="page-size").select(25).run()
    assert texts.SORT_NOTE in captions(app)


# -- After a bulk kick of one's own ------------------------------------------------------------------------------------


def _begun(app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch) -> str:
    """Kick all by a job that is still under way when the page is drawn again."""
    monkeypatch.setattr(bulk, "work_at", lambda _store, _job_id: None)
    app.run().button(key="kick-all").click().run()
    app.text_area(key="bulk-reason-1").set_value("Clean-up")
    app.text_input(key="bulk-typed-1").set_value("3")
    monkeypatch.setattr(bulk, "wait_for", lambda _job_id, _seconds: False)
    app.button(key="bulk-confirm-1").click().run()
    assert texts.BULK_BEGUN in toasts(app)
    assert len(uids(app)) == 3
    [job] = presence.jobs()
    return job.id


def test_the_list_is_read_again_when_a_bulk_kick_of_this_tab_has_ended(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(presence, 3)
    job_id = _begun(app, presence, monkeypatch)
    presence.run_job(job_id)
    bulk.jobs(open_store(), anew=True)
    app.run()
    assert not app.dataframe, "no row is left"
    generation = app.session_state["listing"].generation
    app.run()
    assert app.session_state["listing"].generation == generation, "once"


def test_rows_that_are_ticked_stay_when_the_bulk_kick_ends_and_are_marked(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch, looking: None
) -> None:
    log_in(presence, 3)
    job_id = _begun(app, presence, monkeypatch)
    tick(app, 0)
    presence.run_job(job_id)
    bulk.jobs(open_store(), anew=True)
    app.run()
    assert column(app, "status") == [texts.ENDED_ROW] * 3


def test_a_job_of_somebody_else_moves_no_row(app: AppTest, presence: Presence, looking: None) -> None:
    log_in(presence, 3)
    app.run()
    time.sleep(0.002)
    presence.kick_where(SessionFilter(text="user"), by="alex", reason="Clean-up", expected=3)
    bulk.jobs(open_store(), anew=True)
    app.run()
    assert column(app, "status") == [texts.ENDED_ROW] * 3
