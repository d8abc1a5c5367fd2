"""Every argument is checked before anything is sent, and one sentence names the field and the limit."""

from __future__ import annotations

from typing import Any, cast

import pytest

from presence_core import (
    AsyncLastSeenTracker,
    AsyncMinuteSetTracker,
    HeartbeatBuffer,
    InvalidArgument,
    LastSeenTracker,
    MinuteSetTracker,
    Presence,
    PresenceError,
    Worker,
)
from tests.bad_input import CASES, LAST_SEEN, MINUTE_SETS
from tests.conftest import Bed, on
from tests.facade import P
from tests.monitor import Monitor
from tests.trackers import Trackers


@pytest.fixture
def nowhere(anywhere: Bed) -> P:
    """A client of a server that is not there."""
    return anywhere.connect_to("redis://127.0.0.1:1")


def _mistakes(p: P) -> list[str]:
    """What answered a bad argument with anything but its sentence."""
    wrong = []
    for case in CASES:
        try:
            getattr(p, case.method)(*case.args, **case.options)
        except InvalidArgument as error:
            if str(error) != f"{case.sentence}.":
                wrong.append(f"{case}: {error}")
        except Exception as error:
            wrong.append(f"{case}: {error!r}")
        else:
            wrong.append(f"{case}: taken")
    return wrong


def test_bad_arguments_are_named_in_one_sentence_even_when_redis_is_away(nowhere: P) -> None:
    assert len(CASES) > 500
    assert _mistakes(nowhere) == []
    with pytest.raises(PresenceError, match="cannot be reached"):
        nowhere.counts()


@on("valkey")
def test_a_bad_argument_sends_nothing(p: P, bed: Bed) -> None:
    p.counts()
    size = bed.raw.dbsize()
    with Monitor(bed.raw) as monitor:
        _mistakes(p)
    assert monitor.lines == []
    assert bed.raw.dbsize() == size


@pytest.mark.parametrize("kind", ["last_seen", "minute_sets"])
def test_trackers_name_bad_arguments_in_one_sentence_too(anywhere: Bed, kind: str) -> None:
    make = Trackers(anywhere, "redis://127.0.0.1:1")
    tracker, wrong = getattr(make, kind)(), []
    for case in LAST_SEEN if kind == "last_seen" else MINUTE_SETS:
        call = getattr(tracker, case.method) if case.method else getattr(make, kind)
        try:
            call(*case.args, **case.options)
        except InvalidArgument as error:
            if str(error) != f"{case.sentence}.":
                wrong.append(f"{case}: {error}")
        except Exception as error:
            wrong.append(f"{case}: {error!r}")
        else:
            wrong.append(f"{case}: taken")
    make.close()
    assert wrong == []


@pytest.mark.parametrize("kind", [LastSeenTracker, AsyncLastSeenTracker, MinuteSetTracker, AsyncMinuteSetTracker])
def test_a_trackers_url_that_cannot_be_one_is_refused_without_its_password(kind: Any) -> None:
    for url in (5, "", "http://:hunter2@host/", "redis://:hunter2@host:port"):
        with pytest.raises(InvalidArgument, match=r"^url .*\.$") as refused:
            kind.from_url(url, "key", 60)
        assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("kind", [LastSeenTracker, AsyncLastSeenTracker, MinuteSetTracker, AsyncMinuteSetTracker])
def test_a_key_that_cannot_serve_on_a_cluster_is_refused_before_anything_is_connected(kind: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"^(key|prefix) must hold .* on a cluster"):
        kind.from_url("redis+cluster://127.0.0.1:1", "a}b", 60)


def test_the_error_is_a_value_error_that_names_its_field(nowhere: P) -> None:
    with pytest.raises(ValueError, match="uid") as caught:
        nowhere.login("")
    error = caught.value
    assert isinstance(error, InvalidArgument)
    assert isinstance(error, PresenceError)
    assert (error.field, error.rule) == ("uid", "must be text of 1 to 256 bytes")


@pytest.mark.parametrize(
    "url", ["", "localhost", "http://localhost", "redis+what://x", "redis://h:port", "redis+sentinel://",
            "redis+sentinel://h", "redis+sentinel://h:x/name", None, 5],
)  # fmt: skip
def test_a_url_that_cannot_be_one_is_refused(url: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"^url .*\.$"):
        Presence.from_url(url)


def test_a_url_that_is_refused_is_not_repeated_with_its_password() -> None:
    for url in ("redis://user:hunter2@host:port/0", "http://user:hunter2@host/", "redis+sentinel://:hunter2@h"):
        with pytest.raises(InvalidArgument) as refused:
            Presence.from_url(url)
        assert "hunter2" not in str(refused.value)


def test_buffers_and_workers_check_their_arguments_too(nowhere: P) -> None:
    presence = cast(Presence, nowhere)
    options: list[dict[str, Any]] = [{"interval": 0}, {"interval": 3601}, {"interval": "1"}, {"max_refs": 0}]
    for option in options:
        with pytest.raises(InvalidArgument):
            HeartbeatBuffer(presence, **option)
    intervals: list[Any] = [0, 3601, "1", None]
    for interval in intervals:
        with pytest.raises(InvalidArgument):
            Worker(presence, interval=interval)
    accepts: list[Any] = [None, 1, "yes"]
    for accept in accepts:
        with pytest.raises(InvalidArgument, match=r"^accept_clock must be True or False\.$"):
            Worker(presence, accept_clock=accept)
