"""The Live page without a browser, on a real server, and the numbers that it shows."""

from __future__ import annotations

import csv
import io
import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from presence_core import Presence, Sample, Worker
from presence_dashboard import access, texts
from presence_dashboard.data import chart_data
from presence_dashboard.data import store as store_room
from presence_dashboard.data.shared_reads import shared
from presence_dashboard.data.store import open_store
from presence_dashboard.roles import Actor
from presence_dashboard.views.live.latest_activity import merged
from tests.dashboard.conftest import age_cache, log_in
from tests.support.samples import write_samples
from tests.support.servers import Server


def opened(app: AppTest) -> AppTest:
    app.run()
    return fresh(app.switch_page("views/live/live.py"))


def fresh(app: AppTest) -> AppTest:
    """As after some refreshes: no cached data are used."""
    open_store()._shared.clear()
    app.run()
    assert not app.exception
    return app


def metrics(app: AppTest) -> dict[str, str]:
    return {metric.label: metric.value for metric in app.metric}


def captions(app: AppTest) -> str:
    return "\n".join(caption.value for caption in app.caption)


def chart(app: AppTest) -> Any:
    [found] = app.get("vega_lite_chart")
    return found.proto


def spec(app: AppTest) -> str:
    text: str = chart(app).spec
    json.loads(text)
    return text


# -- The strip and the chart -------------------------------------------------------------------------------------------


def test_without_samples_the_page_says_what_takes_them(app: AppTest, presence: Presence) -> None:
    log_in(presence, 2)
    opened(app)
    assert [title.value for title in app.subheader] == [texts.LIVE_NO_SAMPLES_TITLE]
    assert [warning.value for warning in app.warning] == [texts.live_no_worker(None)]
    assert texts.LIVE_NO_SAMPLES_CODE in [block.value for block in app.code]
    shown = metrics(app)
    assert (shown[texts.USERS], shown[texts.SESSIONS]) == ("2", "2")
    assert (shown[texts.LIVE_LOGINS], shown[texts.LIVE_ENDS]) == (texts.NO_VALUE, texts.NO_VALUE), "not zero"
    assert not app.get("vega_lite_chart")


def test_a_count_above_its_limit_is_shown(app: AppTest, presence: Presence) -> None:
    worker = Worker(presence)
    worker._turn()
    state = {"ends": [True, 1, 1812, 500], "logins": [True, 1, 100, 2000]}
    key, stored = presence.internal.context.keys.common.worker, {"at": time.time() * 1000, "counts": state}
    presence.internal.redis_client.hset(key, "alerts", json.dumps(stored))
    opened(app)
    worker._leave()
    text = "**Alert.** Sessions ended in the last minute: 1,812. The limit is 500."
    assert [warning.value for warning in app.warning] == [text]


def test_users_who_denied_a_login_are_counted(app: AppTest, presence: Presence) -> None:
    worker = Worker(presence)
    worker._turn()
    for login in log_in(presence, 2):
        session = login.session
        presence.answer_notice(session.uid, session.session_id, session.login_at, "not_me", until=time.time() + 60)
    opened(app)
    worker._leave()
    text = "**2 users** said today or yesterday that a login was not theirs. In History, choose “Denied by the user”."
    assert [warning.value for warning in app.warning] == [text]


def test_the_samples_of_a_running_worker_are_drawn(app: AppTest, presence: Presence) -> None:
    log_in(presence, 3)
    with Worker(presence, interval=0.05):
        deadline = time.monotonic() + 20
        while not presence.history(time.time() - 60) and time.monotonic() < deadline:
            time.sleep(0.05)
        opened(app)
    assert not app.warning
    assert "worker" not in captions(app), "support staff need no words of operations"
    assert chart(app).alt == texts.LIVE_CHART_ALT
    assert len(chart(app).datasets) == 2, "the samples and the edges; nothing was sampled yesterday"
    assert texts.LIVE_KEY_NO_GHOST[texts.LIVE_GHOST_DAY].capitalize() in captions(app)


def test_the_strip_tells_of_the_last_minute_and_of_today(app: AppTest, presence: Presence) -> None:
    minute = time.time() // 60 * 60 - 60  # the last complete one, or the last but one if another has just ended
    write_samples(presence, minute, [(50, 60, 0), (70, 80, 2), (60, 66, 3), (60, 66, 3), (60, 66, 3), (60, 66, 4)])
    log_in(presence, 1)
    shown = metrics(opened(app))
    assert (shown[texts.USERS], shown[texts.LIVE_LOGINS], shown[texts.LIVE_ENDS]) == ("1", "4", "4")
    assert shown[texts.LIVE_PEAK] == "70" or minute % 86_400 >= 86_400 - 120, "before midnight was not today"
    assert "lowest 50" in captions(app)
    assert "highest 70" in captions(app)


def test_the_range_and_the_ghost_are_those_of_the_address(app: AppTest, presence: Presence) -> None:
    now = time.time() // 60 * 60
    write_samples(presence, now - 8 * 86_400, [(20, 22, 0)] * 30, step=3600)
    write_samples(presence, now - 1200, [(30, 33, 0)] * 5, step=60)
    app.query_params["range"] = "24h"
    app.query_params["ghost"] = texts.LIVE_GHOST_WEEK
    opened(app)
    assert app.button_group(key="range").value == "24h"
    assert texts.live_key(
        [texts.LIVE_KEY_GHOST[texts.LIVE_GHOST_WEEK], texts.LIVE_KEY_LOGINS, texts.LIVE_KEY_ZOOM], "5 min", "UTC"
    ) in captions(app)
    assert "earlier" in spec(app)
    app.button_group(key="ghost").set_value(texts.LIVE_GHOST_NONE).run()
    assert '"earlier"' not in spec(app)
    app.query_params["range"] = "a year"
    assert fresh(app).button_group(key="range").value in chart_data.RANGES


def test_an_empty_range_in_the_address_is_the_usual_one(app: AppTest, presence: Presence) -> None:
    write_samples(presence, time.time() // 60 * 60 - 1200, [(30, 33, 0)] * 5, step=60)
    app.query_params["range"] = ""
    app.switch_page("views/live/live.py").run()
    assert not app.exception
    assert "Users online" in spec(app)


def test_the_lowest_and_highest_of_long_samples_are_in_a_span_of_time(app: AppTest, presence: Presence) -> None:
    minute = time.time() // 300 * 300 - 600
    write_samples(presence, minute, [(30, 33, 0)] * 5, step=60)
    app.query_params["range"] = "24h"
    opened(app)
    begin, end = (datetime.fromtimestamp(minute + after, UTC) for after in (0, 300))
    assert texts.live_between(f"{begin:%H:%M}", f"{end:%H:%M}") in captions(app)


def test_one_line_alone_keeps_its_colour_and_its_words(app: AppTest, presence: Presence) -> None:
    write_samples(presence, time.time() - 60, [(30, 40, 0), (30, 40, 1)])
    opened(app)
    both = spec(app)
    assert texts.LIVE_KEY_KICKS in captions(app)
    app.button_group(key="lines").set_value([texts.SESSIONS]).run()
    assert f"{texts.USERS}: lowest" not in captions(app)
    assert f"{texts.SESSIONS}: lowest 40" in captions(app)
    scale = f'"domain": ["{texts.USERS}", "{texts.SESSIONS}"]'
    assert both.count(scale) == spec(app).count(scale) > 0
    app.toggle(key="live-as-table").set_value(True).run()
    table = next(frame.value for frame in app.dataframe if texts.LIVE_AT_UTC in frame.value)
    assert list(table[texts.SESSIONS]) == [40, 40]
    assert texts.USERS not in table


def test_an_outage_leaves_the_last_good_data_on_the_page(app: AppTest, presence: Presence, server: Server) -> None:
    log_in(presence, 3)
    write_samples(presence, time.time() - 60, [(3, 3, 0)] * 3)
    opened(app)
    server.pause()
    try:
        age_cache()
        app.run()
    finally:
        server.resume()
    assert not app.exception
    assert len(app.warning) == 1, "the notice of the outage alone"
    assert not app.error
    assert metrics(app)[texts.USERS] == "3"
    assert chart(app).datasets[0].data.data
    assert "Updated" in captions(app)


def test_while_redis_is_away_nothing_but_the_counts_asks_it(
    app: AppTest, presence: Presence, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_room, "AWAY", 60.0)
    asked: list[Presence] = []

    def ask(client: Presence) -> bool:
        asked.append(client)
        return client.is_online("ada")

    assert shared("first", ask).value is False
    server.pause()
    try:
        open_store().counts(fresh=True)
        reading = shared("second", ask)
    finally:
        server.resume()
    assert reading.value is None
    assert reading.failure == open_store().counts().failure
    assert len(asked) == 1


def test_the_first_part_that_finds_redis_away_spares_the_others_the_wait(
    app: AppTest, presence: Presence, server: Server
) -> None:
    assert open_store().counts().failure is None
    server.pause()
    try:
        assert shared("first", lambda client: client.is_online("ada")).failure
        assert open_store().counts().failure
    finally:
        server.resume()


# -- On what, and who --------------------------------------------------------------------------------------------------


def test_sessions_are_broken_down_by_device_app_and_browser(app: AppTest, presence: Presence) -> None:
    for number in range(3):
        presence.login(f"user{number}", device="<b>Mac</b>" if number else None, app="web")
    tables = {frame.value.columns[0]: frame.value for frame in opened(app).dataframe}
    assert list(tables[texts.LABEL_DEVICE].itertuples(index=False, name=None)) == [
        ("<b>Mac</b>", pytest.approx(66.7, abs=0.1), 2),
        (texts.LIVE_NOT_GIVEN, pytest.approx(33.3, abs=0.1), 1),
    ]
    assert list(tables[texts.LABEL_APP][texts.SESSIONS]) == [3]


def test_the_feed_tells_who_came_and_who_went_and_why(app: AppTest, presence: Presence) -> None:
    ada, bob = (presence.login(uid, name=f"{uid.title()} [x](y)", device=":red[Mac]").session for uid in ("ada", "bob"))
    presence.kick("bob", bob.session_id, by="dana", reason="**Shared** account")
    presence.logout("ada", ada.session_id)
    opened(app)
    links = [(link.proto.label, link.proto.query_string) for link in app.get("page_link")]
    assert len(links) == 4
    assert set(links) == {("`Ada [x](y)`", "q=ada"), ("`Bob [x](y)`", "q=bob")}
    assert "kicked by **dana**: `**Shared** account`" in captions(app)
    assert texts.LIVE_ENDED["logout"] in captions(app)
    assert f"{texts.LIVE_LOGGED_IN} · `:red[Mac]`" in captions(app)


def test_a_session_that_the_user_denied_was_kicked_by_no_one(app: AppTest, presence: Presence) -> None:
    session = presence.login("dana").session
    presence.answer_notice("dana", session.session_id, session.login_at, "not_me", until=time.time() + 60)
    assert texts.LIVE_CAUSES["denied"] in captions(opened(app))
    assert texts.live_kicked("**dana**", None) not in captions(app)


def test_an_end_of_the_same_moment_stands_above_its_login(presence: Presence) -> None:
    login = presence.login("ada")
    presence.logout("ada", login.session.session_id)
    items = merged([], presence.ended(limit=5).items)
    assert [item.kind for item in items] == ["logout", "login"]


def test_who_may_see_no_people_sees_counts_alone(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(presence, 2)
    monkeypatch.setattr(access, "current", lambda touch=True: Actor("sam", "stats"))
    opened(app)
    assert metrics(app)[texts.USERS] == "2"
    assert not app.get("page_link")
    assert "live-news" not in open_store()._shared, "they were not even read"


def test_names_are_masked_for_who_may_not_see_them(
    app: AppTest, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(presence, 1)
    monkeypatch.setattr(access, "current", lambda touch=True: Actor("vic", "viewer", frozenset({"name"})))
    opened(app)
    assert [link.proto.label for link in app.get("page_link")] == ["**user00**"]


# -- Against the week before -------------------------------------------------------------------------------------------


def test_days_are_compared_with_the_same_days_a_week_before(app: AppTest, presence: Presence) -> None:
    midnight = time.time() // 86_400 * 86_400
    write_samples(presence, midnight - 8 * 86_400, [(100, 120, hour) for hour in range(24)], step=3600)
    write_samples(presence, midnight - 86_400, [(150, 160, 100 + 2 * hour) for hour in range(24)], step=3600)
    opened(app)
    app.button_group(key="compare-days").set_value(texts.LIVE_YESTERDAY).run()
    table = next(frame.value for frame in app.dataframe if texts.LIVE_CHANGE in frame.value)
    rows = {row[0]: row[1:] for row in table.itertuples(index=False, name=None)}
    assert rows[texts.LIVE_UNIQUES_DAY] == ("450", "300", "+50%")
    assert rows[texts.LIVE_PEAK_USERS] == ("150", "100", "+50%")
    assert rows[texts.LIVE_MEAN_USERS] == ("150", "100", "+50%")
    assert rows[texts.LIVE_PEAK_SESSIONS][0] == "160"
    assert rows[texts.LIVE_KICKS_COLUMN][1] == "23"
    assert "gaps" not in captions(app)
    app.button_group(key="compare-days").set_value(texts.LIVE_OTHER_DAYS).run()
    app.date_input(key="compare-from").set_value(datetime.now(UTC).date() - timedelta(days=40)).run()
    assert texts.live_too_many_days(chart_data.MAX_DAYS) in [warning.value for warning in app.warning]
    app.date_input(key="compare-from").set_value(datetime.now(UTC).date()).run()
    assert texts.LIVE_FROM_AFTER_TO in [warning.value for warning in app.warning]


# -- Figures -----------------------------------------------------------------------------------------------------------


def sample(at: int, step: int = 60, users: int = 5, complete: bool = True, **more: Any) -> Sample:
    fields: dict[str, Any] = {
        "at": datetime.fromtimestamp(at, UTC), "step": step, "complete": complete, "samples": step // 10,
        "users": users, "users_min": users, "users_mean": float(users), "users_max": users,
        "sessions": users, "sessions_min": users, "sessions_mean": float(users), "sessions_max": users,
        "logins": 0, "logouts": 0, "kicked": 0, "expired": 0, "replaced": 0, "apps": None, "devices": None,
    }  # fmt: skip
    return Sample(**fields | more)


def test_a_gap_breaks_the_line_and_the_running_step_is_its_dashed_end() -> None:
    samples = [sample(0), sample(60), sample(180), sample(300), sample(360, complete=False)]
    table = chart_data.table(samples).to_pydict()
    assert table["part"] == [0, 0, 1, 2, 2]
    assert table["alone"] == [False, False, True, False, False]
    assert table["done"] == [True, True, True, True, False]
    assert table["tail"] == [False, False, False, True, True]
    assert chart_data.table([]).num_rows == 0


def test_an_earlier_day_is_drawn_later_but_keeps_its_own_time() -> None:
    [at], [taken] = (chart_data.table([sample(0)], 86_400).to_pydict()[name] for name in ("at", "taken"))
    assert (at, taken) == (86_400_000, 0)


def test_an_old_minute_is_not_called_the_last() -> None:
    now = datetime.fromtimestamp(1_000, UTC)
    assert chart_data.last_whole([sample(900), sample(960, complete=False)], now) == sample(900)
    assert chart_data.last_whole([sample(0)], now) is None
    assert chart_data.last_whole([], now) is None


def test_shares_name_the_most_frequent_and_sum_up_the_rest() -> None:
    found = chart_data.shares({f"v{number:02}": 20 - number for number in range(11)} | {"": 3}, 200)
    assert [row.value for row in found] == [*(f"v{number:02}" for number in range(8)), None, ""]
    assert (found[8].sessions, found[8].values) == (33, 3)
    assert sum(row.sessions for row in found) == 200
    assert sum(row.share for row in found) == pytest.approx(1)
    assert len(chart_data.shares({f"v{number}": 1 for number in range(9)}, 9)) == 9, "one alone is named"
    assert chart_data.shares({}, 0) == []
    assert chart_data.shares({"a": 5}, 3)[0].share == 1, "facets may be a sweep ahead of the count"


def test_a_change_from_nothing_is_not_shown() -> None:
    assert (chart_data.change(5, 0), chart_data.change(None, 5), chart_data.change(5, None)) == (None, None, None)
    assert chart_data.change(15, 10) == pytest.approx(0.5)


def test_the_mean_of_hours_counts_each_by_its_samples() -> None:
    hours = [sample(0, 3600, 10), sample(3600, 3600, 40, samples=180)]
    found = chart_data.summary(hours, [sample(0, 86_400, uniques=7), sample(0, 86_400, complete=False, uniques=1)])
    assert found.mean_users == pytest.approx(20)
    assert (found.peak_users, found.uniques) == (40, 7)
    assert chart_data.summary([], []).mean_users is None


def test_the_csv_holds_numbers_and_utc_times() -> None:
    text = chart_data.as_csv({"these_days": [sample(3600, 3600, 10, uniques=12)], "week_before": [sample(0, 3600)]})
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [(row["at"], row["range"], row["users_mean"], row["uniques"]) for row in rows] == [
        ("1970-01-01T01:00:00Z", "these_days", "10.00", "12"), ("1970-01-01T00:00:00Z", "week_before", "5.00", ""),
    ]  # fmt: skip
