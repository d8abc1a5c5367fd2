"""Times on pages, also in the hour that a clock shows twice at the end of summer time."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from presence_dashboard.format import clock, minute, second

BERLIN = ZoneInfo("Europe/Berlin")
TWICE = [datetime(2026, 10, 25, hour, 30, tzinfo=UTC) for hour in (0, 1)]
"""02:30 in Berlin, in summer time and an hour later."""


def test_a_time_that_a_clock_shows_twice_has_its_offset() -> None:
    assert [clock(at, BERLIN) for at in TWICE] == ["02:30:00 +02:00", "02:30:00 +01:00"]
    assert [minute(at, BERLIN).partition(", ")[2] for at in TWICE] == ["02:30 +02:00", "02:30 +01:00"]
    assert second(TWICE[1], BERLIN) == "2026-10-25 02:30:00 +01:00"


def test_other_times_have_none() -> None:
    for at in (datetime(2026, 10, 25, 2, 30, tzinfo=UTC), datetime(2026, 3, 29, 1, 30, tzinfo=UTC)):
        assert clock(at, BERLIN) == "03:30:00"
    assert clock(TWICE[0], UTC) == "00:30:00"
