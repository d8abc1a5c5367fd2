"""Alerts: when a count per minute is above its limit, and the options of the commands."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from presence_core import InvalidArgument, Presence, Sample, Worker
from presence_core.cli import build_parser
from presence_core.cli.alerts import SECRET, URL, alert_webhook
from presence_core.models import AlertCount
from presence_core.operations.maintenance.alerts import AlertState, next_state, per_minute
from presence_core.web.webhooks import AlertWebhook

START = datetime(2026, 1, 31, 12, tzinfo=UTC)
ENVIRON = {SECRET: "a secret that only two know"}


def sample(second: int, logins: int = 0, **ended: int) -> Sample:
    """The sample of the ten seconds that end ``second`` seconds after START."""
    counts: dict[str, Any] = dict.fromkeys(("users", "users_min", "users_mean", "users_max"), 0)
    counts |= dict.fromkeys(("sessions", "sessions_min", "sessions_mean", "sessions_max"), 0)
    counts |= dict.fromkeys(("logouts", "kicked", "expired", "replaced"), 0) | ended
    at = START + timedelta(seconds=second - 10)
    return Sample(at=at, step=10, samples=1, complete=True, logins=logins, **counts)


def rates(*samples: Sample, end: int) -> dict[AlertCount, int]:
    return per_minute(samples, round(START.timestamp() * 1000) + end * 1000)


def test_the_counts_of_a_minute_are_those_of_its_six_samples() -> None:
    samples = [sample(second, logins=1, logouts=1, kicked=2, expired=3, replaced=4) for second in range(10, 121, 10)]
    assert rates(*samples, end=120) == {"logins": 6, "ends": 60, "failed": 0}


def test_without_a_minute_of_samples_no_rate_is_known() -> None:
    assert rates(end=60) == {}
    assert rates(*(sample(second, logins=9) for second in range(10, 61, 10)), end=60) == {}
    whole = [sample(second, logins=9) for second in range(10, 71, 10)]
    assert rates(*whole, end=70) == {"logins": 54, "ends": 0, "failed": 0}
    assert rates(*whole, end=80) == {}, "the last sample is missing"


def test_what_a_sample_counts_after_a_gap_is_spread_over_the_gap() -> None:
    assert rates(sample(10), sample(100, logins=30), end=100) == {"logins": 20, "ends": 0, "failed": 0}
    after_a_night = [sample(10, logins=50_000), *(sample(second, logins=1) for second in range(20, 71, 10))]
    assert rates(*after_a_night, end=70) == {"logins": 6, "ends": 0, "failed": 0}, (
        "the first one counts what came before it"
    )


def test_a_sample_after_a_gap_that_is_not_complete_says_nothing() -> None:
    back = dataclasses.replace(sample(200), complete=False)
    assert rates(sample(10, logins=9), back, end=200) == {}
    minute = [sample(second, logins=2) for second in range(210, 261, 10)]
    assert rates(sample(190, logins=9), back, *minute[:-1], end=250) == {}, "fifty seconds"
    assert rates(sample(190, logins=9), back, *minute, end=260) == {"logins": 12, "ends": 0, "failed": 0}


def test_a_count_that_swings_around_its_limit_changes_its_state_once_a_minute() -> None:
    state, changes = AlertState(), []
    for second in range(1000, 1301, 10):
        after = next_state(state, is_above=second % 20 == 0, now=second * 1000)
        if after != state:
            changes.append(second)
        state = after
    assert changes == [1000, 1070, 1140, 1210, 1280]


def test_a_count_that_stays_above_its_limit_changes_its_state_twice() -> None:
    states = [AlertState()]
    for second in range(1000, 2001, 10):
        states.append(next_state(states[-1], is_above=1100 < second <= 1500, now=second * 1000))
    assert list(dict.fromkeys(states)) == [AlertState(), AlertState(True, 1_110_000), AlertState(False, 1_510_000)]


def test_a_clock_that_was_set_back_stops_no_alert() -> None:
    assert next_state(AlertState(False, 9_000_000), is_above=True, now=1_000_000) == AlertState(True, 1_000_000)


def test_the_options_make_a_webhook_with_their_limits() -> None:
    words = ["--alert-url", "https://chat.example/hook", "--alert-ends", "500", "--alert-logins", "2000"]
    for command in (["worker"], ["serve", "--worker"]):
        with alert_webhook(build_parser().parse_args([*command, *words]), ENVIRON) as alerts:
            assert alerts is not None
            assert alerts.limits == {"ends": 500, "logins": 2000}
    url = {URL: "https://chat.example/hook?key=1"}
    with alert_webhook(build_parser().parse_args(["worker", "--alert-logins", "1"]), ENVIRON | url) as alerts:
        assert alerts is not None
        assert alerts.limits == {"logins": 1}
    with alert_webhook(build_parser().parse_args(["worker"]), ENVIRON | url) as alerts:
        assert alerts is None


_URL = "--alert-url must be a URL: http or https, in ASCII, without user and password."


@pytest.mark.parametrize(
    ("words", "environ", "sentence"),
    [
        ("worker --alert-ends 5", ENVIRON, "--alert-url must be given for alerts: where to send them."),
        (
            "worker --alert-url http://x",
            ENVIRON,
            "--alert-ends or another --alert- option must be given: what to alert of.",
        ),
        ("worker --alert-url x --alert-ends 5", ENVIRON, _URL),
        ("worker --alert-url https://hunter2@x/ --alert-ends 5", ENVIRON, _URL),
        ("worker --alert-ends 5", ENVIRON | {URL: "https://key:hunter2@x/"}, _URL),
        (
            "worker --alert-url http://x --alert-ends 0",
            ENVIRON,
            "--alert-ends must be a whole number from 1 to 1000000000.",
        ),
        (
            "worker --alert-url http://x --alert-ends 5",
            {SECRET: "short"},
            "PRESENCE_ALERT_SECRET must be set to a text of at least 16 characters: alerts are signed with it.",
        ),
        ("serve --alert-ends 5", ENVIRON, "--worker must be given for alerts: the worker checks the limits."),
    ],
)
def test_wrong_options_are_refused_in_one_sentence(words: str, environ: dict[str, str], sentence: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        alert_webhook(build_parser().parse_args(words.split()), environ)
    assert str(caught.value) == sentence


def test_wrong_arguments_are_refused_in_one_sentence() -> None:
    with pytest.raises(InvalidArgument, match=r"^ends or another limit must be given, or people\.$"):
        AlertWebhook("https://chat.example/hook", ENVIRON[SECRET])
    with Presence.from_url("redis://127.0.0.1:1") as presence:
        receiver: Any = "https://chat.example/hook"
        with pytest.raises(InvalidArgument, match=r"^alerts must be an AlertWebhook\.$"):
            Worker(presence, alerts=receiver)
