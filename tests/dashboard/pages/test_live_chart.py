"""What a click or a drag on the chart of the Live page shows."""

from __future__ import annotations

import json
import re
import time
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl

import pyarrow as pa  # type: ignore[import-untyped]  # comes with Streamlit, ships no types
import pytest
from streamlit.proto.WidgetStates_pb2 import WidgetState
from streamlit.testing.v1 import AppTest

from presence_core import Presence
from presence_core.operations.maintenance import history
from presence_dashboard import access, texts
from presence_dashboard.data import chart_data
from presence_dashboard.data.store import open_store
from presence_dashboard.roles import Actor
from presence_dashboard.views.live.count_chart import moment
from presence_dashboard.views.live.free_range import FIELDS
from tests.dashboard.conftest import open_page, send, table, tables
from tests.dashboard.pages.test_live_page import captions, fresh, opened, sample
from tests.support.samples import write_samples
from tests.support.servers import wait_for


def pick(app: AppTest, **selection: Any) -> AppTest:
    """Select in the chart as a browser does."""
    chart = app.get("vega_lite_chart")[0]
    open_store()._shared.clear()
    send(app, WidgetState(id=chart.proto.id, string_value=json.dumps({"selection": selection})))
    assert not app.exception
    return app


def links(app: AppTest) -> list[tuple[str, str]]:
    return [(link.proto.label, link.proto.query_string) for link in app.get("page_link")]


def kicked_now(presence: Presence) -> float:
    """Kick two people; samples of now count it. Returns the time of the mark, Unix seconds."""
    wait_for("the middle of a minute, as a click shows one", lambda: 12 <= time.time() % 60 < 58)
    at = time.time() // 10 * 10
    for uid in ("ada", "bob"):
        presence.login(uid, name=f"{uid.title()} [x](y)")
        presence.kick(uid, by="dana", reason="**Shared** account")
    write_samples(presence, at - 10, [(5, 5, 0), (5, 5, 2)])
    return at


def test_a_click_on_a_kick_mark_shows_who_was_kicked_by_whom_and_why(app: AppTest, presence: Presence) -> None:
    at = kicked_now(presence)
    opened(app)
    assert texts.LIVE_KEY_KICKS in captions(app)
    before = len(links(app))
    pick(app, picked=[{"at": (at - 10) * 1000}])  # next to the mark
    shown = links(app)
    assert shown.count(("`Ada [x](y)`", "q=ada")) >= 3, "in the latest activity at its login and its end, and here"
    [history] = [query for _, query in shown if "how=kicked" in query]
    address = dict(parse_qsl(history))
    assert set(table(open_page("history", **address)).column("uid")) == {"ada", "bob"}
    address["time"] = re.sub(r"20\d\d-", "2020-", address["time"])
    assert tables(open_page("history", **address)) == []
    assert captions(app).count("kicked by **dana**: `**Shared** account`") >= 4, "here and in the latest activity"
    app.button(key="span-close").click().run()
    assert len(links(app)) == before


def test_a_click_far_from_any_kick_shows_no_kicks(app: AppTest, presence: Presence) -> None:
    at = kicked_now(presence)
    opened(app)
    pick(app, picked=[{"at": (at - 1800) * 1000}])
    assert "kicks between" not in " ".join(text.value for text in app.markdown)


@pytest.mark.parametrize("forged", [[{"at": "x"}], [{"at": -1}], [{"at": 1e300}], [{"at": True}], [{}], []])
def test_a_selection_that_is_no_time_shows_nothing(app: AppTest, presence: Presence, forged: list[Any]) -> None:
    kicked_now(presence)
    opened(app)
    before = links(app)
    pick(app, picked=forged)
    assert sorted(links(app)) == sorted(before)
    assert "span-close" not in {button.key for button in app.button}


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


# -- A free range ------------------------------------------------------------------------------------------------------


def address(app: AppTest) -> tuple[int, int] | None:
    found = [value if isinstance(value, str) else value[0] for value in map(app.query_params.get, FIELDS) if value]
    return (int(found[0]), int(found[1])) if found else None


def edges(app: AppTest) -> list[int]:
    """Start and end of the drawn range, Unix seconds."""
    chart = app.get("vega_lite_chart")[0]
    [data] = [part.data.data for part in chart.proto.datasets if part.name == "edges"]
    return [round(at / 1000) for at in pa.ipc.open_stream(data).read_all().to_pydict()["at"]]


def some_samples(presence: Presence) -> int:
    """Samples of the last hour. Returns when they end, Unix seconds."""
    end = int(time.time() // 60 * 60)
    write_samples(presence, end - 3600, [(30, 40, 0)] * 60, step=60)
    return end


def test_a_drag_over_the_chart_zooms_and_the_address_keeps_it(app: AppTest, presence: Presence) -> None:
    end = some_samples(presence)
    opened(app)
    since, until = end - 1800, end - 1200
    pick(app, zoom={"at": [(until - 3) * 1000, (since + 3) * 1000]})
    assert address(app) == (since, until), "whole samples"
    assert edges(app) == [since, until]
    assert texts.live_key(
        [texts.LIVE_KEY_NO_GHOST[texts.LIVE_GHOST_DAY], texts.LIVE_KEY_LOGINS, texts.LIVE_KEY_ZOOM], "10 s", "UTC"
    ) in captions(app)

    app.button(key="zoom-out").click().run()
    assert address(app) == (since - 300, until + 300)
    assert not app.button_group(key="range-left").value, "no range up to now is shown"
    app.button_group(key="range-left").set_value("24h").run()
    assert address(app) is None
    assert app.button_group(key="range").value == "24h"
    pick(app, zoom={"at": [since * 1000, until * 1000]})
    app.button(key="leave-range").click().run()
    assert address(app) is None
    assert edges(app)[1] - edges(app)[0] == 86_400


def test_a_short_drag_shows_a_minute_and_none_ends_in_the_future(app: AppTest, presence: Presence) -> None:
    end = some_samples(presence)
    opened(app)
    pick(app, zoom={"at": [(end - 600) * 1000, (end - 599) * 1000]})
    found = address(app)
    assert found is not None
    assert found[0] <= end - 600 < end - 599 <= found[1]
    assert 60 <= found[1] - found[0] <= 70
    pick(app, zoom={"at": [(end - 600) * 1000, (end + 9_000) * 1000]})
    found = address(app)
    assert found is not None
    assert found[1] <= time.time() + 10


@pytest.mark.parametrize(
    "forged", [{"at": ["x", "y"]}, {"at": [1]}, {"at": None}, {"at": [5_000, 5_000]}, {"at": [None, 1e300]}, {}, []]
)
def test_a_drag_that_is_no_range_changes_nothing(app: AppTest, presence: Presence, forged: Any) -> None:
    some_samples(presence)
    opened(app)
    pick(app, zoom=forged)
    assert address(app) is None


def test_typed_times_are_shown_and_wrong_ones_get_one_sentence(app: AppTest, presence: Presence) -> None:
    end = some_samples(presence)
    opened(app)
    [no_worker] = [warning.value for warning in app.warning]

    def show(first: int | None, last: int | None) -> list[str]:
        for field, value in zip(app.datetime_input, (first, last), strict=True):
            field.set_value(None if value is None else datetime.fromtimestamp(value, UTC).replace(tzinfo=None))
        next(button for button in app.button if button.label == texts.LIVE_SHOW_TIMES).click().run()
        assert not app.exception
        shown = [warning.value for warning in app.warning]
        shown.remove(no_worker)
        return shown

    assert show(end - 600, None) == [texts.LIVE_TIMES_MISSING]
    assert show(end - 600, end - 1200) == [texts.LIVE_TIMES_REVERSED]
    assert show(end + 7_200, end + 9_000) == [texts.LIVE_TIMES_REVERSED]
    assert show(end - 1_000 * 86_400, end) == [texts.LIVE_TIMES_LONG]
    assert show(end - 1200, end - 600) == []
    assert address(app) == (end - 1200, end - 600)


@pytest.mark.parametrize(
    ("first", "last"),
    [
        ("x", "y"), ("-1", "1700000000"), ("²", "1700000000"), ("1700000600", "1700000000"), ("1", "1700000000"),
        ("1700000000", "1700000010"), ("9" * 30, "9" * 31), ("1700000000", "9999999999"),
    ],
)  # fmt: skip
def test_an_address_with_a_range_that_cannot_be_shown_shows_the_latest(
    app: AppTest, presence: Presence, first: str, last: str
) -> None:
    some_samples(presence)
    app.query_params["from"], app.query_params["to"] = first, last
    opened(app)
    assert edges(app)[1] - edges(app)[0] == 3_600


def test_a_range_that_is_open_stays_through_a_refresh(app: AppTest, presence: Presence) -> None:
    end = some_samples(presence)
    app.query_params["from"], app.query_params["to"] = str(end - 900), str(end - 300)
    opened(app)
    assert edges(fresh(app)) == [end - 900, end - 300]


# -- Split -------------------------------------------------------------------------------------------------------------


def rows(app: AppTest) -> list[dict[str, Any]]:
    """The bars of the second chart."""
    chart = app.get("vega_lite_chart")[1]
    [data] = [part.data.data for part in chart.proto.datasets if part.name == "rows"]
    found: list[dict[str, Any]] = pa.ipc.open_stream(data).read_all().to_pylist()
    return found


def test_ends_are_split_by_reason_in_the_chart_in_words_and_in_the_table(app: AppTest, presence: Presence) -> None:
    kicked_now(presence)
    app.query_params["split"] = "reason"
    opened(app)
    [bar] = rows(app)
    assert (bar["value"], bar["count"], bar["until"] - bar["at"] <= 10_000) == (texts.LIVE_REASONS["kicked"], 2, True)
    assert "Ends: signed out 0, expired 0, replaced by a newer login 0, kicked 2. One bar = 10 s." in captions(app)
    app.toggle(key="live-as-table").set_value(True).run()
    table = next(frame.value for frame in app.dataframe if texts.LIVE_AT_UTC in frame.value)
    assert list(table[texts.LIVE_REASONS["kicked"]]) == [2, 0]


def test_logins_on_a_new_device_are_shown_in_the_chart_in_words_and_in_the_table(
    app: AppTest, presence: Presence
) -> None:
    app.query_params["split"] = "odd"
    some_samples(presence)
    opened(app)
    assert texts.LIVE_NO_ODD in captions(app)
    kicked_now(presence)
    fresh(app)
    [bar] = rows(app)
    assert (bar["value"], bar["count"]) == (texts.LIVE_ODD["new_devices"], 2)
    assert "Logins: new device 2, far from the last login 0. One bar = 10 s." in captions(app)
    app.toggle(key="live-as-table").set_value(True).run()
    table = next(frame.value for frame in app.dataframe if texts.LIVE_AT_UTC in frame.value)
    assert list(table[texts.LIVE_ODD["new_devices"]])[:2] == [2, 0]


def test_sessions_are_split_by_app_and_device_and_names_are_plain_text(app: AppTest, presence: Presence) -> None:
    end = some_samples(presence)
    app.query_params["split"] = "apps"
    opened(app)
    assert texts.LIVE_NO_SPLIT in captions(app)
    at = (end - 60) // 3600 * 3_600_000  # an hour with samples
    ctx = presence.internal.context
    presence.internal.run(history.split(ctx, at, {"<b>web</b>": 7, "[x](y)": 2, "": 1}, {"Mac": 10}))
    fresh(app)
    assert {bar["value"]: bar["count"] for bar in rows(app)} == {
        "<b>web</b>": 7, "[x](y)": 2, texts.LIVE_NOT_GIVEN: 1,
    }  # fmt: skip
    assert f"Latest: `<b>web</b>` 7, `[x](y)` 2, {texts.LIVE_NOT_GIVEN} 1." in captions(app)
    app.button_group(key="split").set_value("devices").run()
    assert [bar["value"] for bar in rows(app)] == ["Mac"]
    [start, stop] = edges(app)
    assert all(start * 1000 - 1000 <= bar["at"] <= bar["until"] <= stop * 1000 + 1000 for bar in rows(app))


def test_without_a_split_there_is_one_chart(app: AppTest, presence: Presence) -> None:
    some_samples(presence)
    app.query_params["split"] = "<script>"
    opened(app)
    assert len(app.get("vega_lite_chart")) == 1
    app.button_group(key="split").set_value("reason").run()
    assert texts.LIVE_NO_ENDS in captions(app)


def test_the_most_frequent_values_are_named_and_the_rest_summed_up() -> None:
    many = {f"v{number}": 100 - number for number in range(9)}
    samples = [
        sample(0, 3600, apps=many | {"(other)": 5}),
        sample(3600, 3600, apps={"v8": 1, "v0": 2}),
        sample(7200, 3600),
    ]
    split = chart_data.sessions_by("apps", samples)
    bars = split.table.to_pylist()
    assert [bar["value"] for bar in bars] == ["v0", "v1", "v2", "v3", "v4", "v5", "(other)", "v0", "(other)"]
    assert [bar["count"] for bar in bars[6:]] == [94 + 93 + 92 + 5, 2, 1]
    assert split.totals == (("v0", 2), ("(other)", 1))
    assert chart_data.sessions_by("devices", samples).table.num_rows == 0
    assert chart_data.events_by(chart_data.ODD, []).step == 0
