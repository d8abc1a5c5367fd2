"""What a click or a drag on the chart of the Live page shows."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from streamlit.proto.WidgetStates_pb2 import WidgetState
from streamlit.testing.v1 import AppTest

from presence_core import Presence
from presence_dashboard import access, texts
from presence_dashboard.access import Actor
from presence_dashboard.data import chart_data
from presence_dashboard.data.store import open_store
from presence_dashboard.views.live.count_chart import moment
from tests.dashboard.conftest import send
from tests.dashboard.test_live_page import captions, opened, sample
from tests.support.samples import write_samples


def pick(app: AppTest, **selection: Any) -> AppTest:
    """Select in the chart as a browser does."""
    [chart] = app.get("vega_lite_chart")
    open_store()._shared.clear()
    send(app, WidgetState(id=chart.proto.id, string_value=json.dumps({"selection": selection})))
    assert not app.exception
    return app


def links(app: AppTest) -> list[tuple[str, str]]:
    return [(link.proto.label, link.proto.query_string) for link in app.get("page_link")]


def kicked_now(presence: Presence) -> float:
    """Kick two people; samples of now count it. Returns the time of the mark, Unix seconds."""
    for uid in ("ada", "bob"):
        presence.login(uid, name=f"{uid.title()} [x](y)")
        presence.kick(uid, by="dana", reason="**Shared** account")
    at = time.time() // 10 * 10
    write_samples(presence, at - 10, [(5, 5, 0), (5, 5, 2)])
    return at


def test_a_click_on_a_kick_mark_shows_who_was_kicked_by_whom_and_why(app: AppTest, presence: Presence) -> None:
    at = kicked_now(presence)
    opened(app)
    assert texts.LIVE_KEY_KICKS in captions(app)
    before = len(links(app))
    pick(app, picked=[{"at": (at - 10) * 1000}])  # next to the mark
    shown = links(app)
    assert len(shown) == before + 3
    assert ("`Ada [x](y)`", "q=ada") in shown
    [history] = [query for label, query in shown if label == texts.LIVE_KICKS_HISTORY]
    assert history.startswith("view=ended&how=kicked&since=20")
    assert captions(app).count("kicked by **dana**: `**Shared** account`") == 4, "here and in the latest activity"
    app.button(key="kicks-close").click().run()
    assert len(links(app)) == before


def test_a_click_far_from_any_kick_says_that_there_was_none(app: AppTest, presence: Presence) -> None:
    at = kicked_now(presence)
    opened(app)
    pick(app, picked=[{"at": (at - 1800) * 1000}])
    clock = datetime.fromtimestamp(at - 1800, UTC).strftime("%H:%M:%S")
    assert texts.live_no_kicks(clock) in captions(app)


@pytest.mark.parametrize("forged", [[{"at": "x"}], [{"at": -1}], [{"at": 1e300}], [{"at": True}], [{}], []])
def test_a_selection_that_is_no_time_shows_nothing(app: AppTest, presence: Presence, forged: list[Any]) -> None:
    kicked_now(presence)
    opened(app)
    before = links(app)
    pick(app, picked=forged)
    assert sorted(links(app)) == sorted(before)
    assert "No kicks" not in captions(app)


def test_members_who_may_see_no_people_get_no_names_from_a_kick_mark(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = kicked_now(presence)
    monkeypatch.setattr(access, "current", lambda touch=True: Actor("sam", "stats"))
    opened(app)
    assert texts.LIVE_KEY_KICKS not in captions(app)
    pick(app, picked=[{"at": at * 1000}])
    assert links(app) == []

    monkeypatch.setattr(access, "current", lambda touch=True: Actor("vic", "viewer", frozenset({"name"})))
    pick(app, picked=[{"at": at * 1000}])
    assert ("**ada**", "q=ada") in links(app)
    assert "[x](y)" not in str(links(app))


def test_a_click_finds_the_nearest_mark_within_a_part_of_the_range() -> None:
    samples = [sample(0, kicked=1), sample(60), sample(120, kicked=3)]

    def found(picked: float, seconds: float) -> int | None:
        mark = chart_data.kick_mark(samples, datetime.fromtimestamp(picked, UTC), seconds)
        return mark.kicked if mark else None

    assert [found(at, 80 * 60) for at in (20, 59, 61, 180)] == [1, 1, 3, 3]
    assert found(300, 80 * 60) is None
    assert found(70, 80 * 60 * 24) == 3
    mark = chart_data.kick_mark(samples, datetime.fromtimestamp(120, UTC), 3600)
    assert mark is not None
    assert mark.until - mark.since == timedelta(seconds=70)
    assert chart_data.kick_mark([], datetime.fromtimestamp(0, UTC), 3600) is None


def test_a_time_of_the_browser_is_checked() -> None:
    assert moment(1_000) == datetime.fromtimestamp(1, UTC)
    for wrong in (None, "1000", [1000], True, -5, 0, float("nan"), float("inf"), 10**20):
        assert moment(wrong) is None
