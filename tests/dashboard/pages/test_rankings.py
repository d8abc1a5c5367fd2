"""Lists that a lead asks for: people with the most sessions, the usual hours, colleagues by their actions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

from streamlit.testing.v1 import AppTest

from presence_core import Presence
from presence_core.operations.maintenance import top_people
from presence_dashboard import texts
from presence_dashboard.views.live.usual_hours import averages
from tests.dashboard.conftest import age_cache, open_page
from tests.dashboard.pages.test_remarks import html_of


def test_the_live_page_lists_the_people_with_the_most_sessions(app: AppTest, presence: Presence) -> None:
    assert texts.LIVE_TOP_UNREAD in [caption.value for caption in open_page("live").caption]
    presence.login_many({"uid": "u1", "name": "Ada Lovelace"} for _ in range(3))
    presence.login("u2", name="Bea")
    ranking = top_people.Ranking(presence.internal.context)
    while presence.internal.run(ranking.step()):
        pass
    age_cache()
    page = html_of(open_page("live"))
    assert "Ada Lovelace" in page
    table = page[page.index(texts.LIVE_TOP) :]
    assert "Ada Lovelace" in table
    assert "Bea" not in table


def test_the_usual_hours_are_means_by_hour_and_weekday_of_the_reader() -> None:
    begin = datetime(2026, 3, 2, tzinfo=UTC)  # a Monday
    samples: list[Any] = [
        SimpleNamespace(at=begin + timedelta(hours=hour), users_mean=float(hour % 24 + hour // 168), samples=hour != 5)
        for hour in range(2 * 168)
    ]
    means = averages(samples, ZoneInfo("Asia/Tokyo"))
    assert means[0, 9] == 0.5  # midnight in UTC, of two weeks
    assert means[0, 14] == 6.0, "an hour without samples does not count"
    assert len(means) == 168


def test_the_report_ranks_colleagues_by_their_actions(app: AppTest, presence: Presence) -> None:
    for n in range(3):
        presence.block(f"u{n}", by="sam", reason="spam", ticket="T-1")
    presence.block("u9", by="dana", reason="spam")
    page = html_of(open_page("report"))
    table = page[page.index(texts.REPORT_RANKING) :]
    assert table.index("sam") < table.index("dana")
