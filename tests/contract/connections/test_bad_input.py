"""Every argument is checked before anything is sent, and one sentence names the field and the limit."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, cast

import pytest
import redis
import redis.asyncio
from redis.sentinel import Sentinel

from presence_core import (
    AsyncLastSeenTracker,
    AsyncMinuteSetTracker,
    AsyncPresence,
    HeartbeatBuffer,
    InvalidArgument,
    LastSeenTracker,
    MinuteSetTracker,
    Presence,
    PresenceError,
    Worker,
)
from tests.conftest import Bed, on
from tests.support.expected.bad_input import CASES as MOST
from tests.support.expected.bad_input import LAST_SEEN, MINUTE_SETS
from tests.support.expected.bad_input_staff import STAFF_CASES
from tests.support.facade import P
from tests.support.monitor import Monitor
from tests.support.trackers import Trackers

CASES = MOST + STAFF_CASES


@pytest.fixture
def unreachable(anywhere: Bed) -> P:
    """A client of a server that is not there. It refuses what describes a visitor, too."""
    return anywhere.connect_to("redis://127.0.0.1:1", unfit="refuse")


def _mistakes(p: P) -> list[str]:
    """The calls that answered a bad argument in any other way than with its sentence."""
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


def test_bad_arguments_are_named_in_one_sentence_even_while_redis_is_down(unreachable: P) -> None:
    assert len(CASES) > 2000
    assert len({case.sentence for case in CASES}) > 60
    assert _mistakes(unreachable) == []
    with pytest.raises(PresenceError, match="cannot be reached"):
        unreachable.counts()


NOT_THERE = {
    "from_url", "from_env", "embedded",  # constructors, tested below and in test_settings.py
    "iter_sessions", "watch",  # their filter, page and cursor are checked by list_sessions and events
    "rotate",  # any token that is not valid gets the same reply: test_tokens.py
}  # fmt: skip
SWITCHES = {"touch", "force", "imported", "exclude", "keep"}
"""The boolean arguments; and the list arguments, which have cases of their own."""


def test_every_method_and_argument_is_in_the_table() -> None:
    given: dict[str, set[str]] = {}
    for case in CASES:
        given.setdefault(case.method, set()).update(case.options)
    for name, method in inspect.getmembers(Presence, inspect.isfunction):
        arguments = list(inspect.signature(method).parameters.values())[1:]
        if name.startswith("_") or not arguments or name in NOT_THERE:
            continue
        assert name in given, name
        named = {parameter.name for parameter in arguments if parameter.kind is parameter.KEYWORD_ONLY}
        assert named - given[name] <= SWITCHES, name


@on("valkey")
def test_a_bad_argument_sends_nothing(bed: Bed) -> None:
    p = bed.connect(unfit="refuse")
    p.login("ada", session_id="session-1")
    before = bed.dump()
    with Monitor(bed.raw) as monitor:
        assert _mistakes(p) == []
    assert monitor.lines == []
    assert bed.dump() == before


@pytest.mark.parametrize("kind", ["last_seen", "minute_sets"])
def test_trackers_also_name_bad_arguments_in_one_sentence(anywhere: Bed, kind: str) -> None:
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
def test_a_trackers_invalid_url_is_refused_without_its_password(kind: Any) -> None:
    for url in (5, "", "http://:hunter2@host/", "redis://:hunter2@host:port"):
        with pytest.raises(InvalidArgument, match=r"^url .*\.$") as refused:
            kind.from_url(url, "key", 60)
        assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("kind", [LastSeenTracker, AsyncLastSeenTracker, MinuteSetTracker, AsyncMinuteSetTracker])
def test_a_key_that_does_not_work_on_a_cluster_is_refused_before_connecting(kind: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"^(key|prefix) must hold .* on a cluster"):
        kind.from_url("redis+cluster://127.0.0.1:1", "a}b", 60)


def test_the_error_is_a_value_error_that_names_its_field(unreachable: P) -> None:
    with pytest.raises(ValueError, match="uid") as caught:
        unreachable.login("")
    error = caught.value
    assert isinstance(error, InvalidArgument)
    assert isinstance(error, PresenceError)
    assert (error.field, error.rule) == ("uid", "must be text of 1 to 256 bytes")
    for number in (42, 4.5):
        with pytest.raises(InvalidArgument, match=r"^uid must be text of 1 to 256 bytes, not a number\.$"):
            unreachable.login(number)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "url", ["", "localhost", "http://localhost", "redis+what://x", "redis://h:port", "redis+sentinel://",
            "redis+sentinel://h", "redis+sentinel://h:x/name", None, 5,
            "redis://h:99999", "redis://h/name", "redis://h/-1", "redis://h/?nonsense=1", "redis://h/?protocol=7",
            "redis+cluster://h:99999", "redis+cluster://", "redis+cluster://:6379", "redis+cluster://h/3",
            "redis+cluster://h/name", "redis+cluster://h?db=3", "redis+cluster://h?nonsense=1",
            "redis+cluster://h,,h2", "redis+cluster://h1,h2:99999", "redis+cluster://h1,h2/3", "redis+cluster://h?protocol=7",
            "redis://h1,h2",
            "redis+sentinel://h:99999/name", "redis+sentinel://h,,h2/name", "redis+sentinel://h/name/-1",
            "redis+sentinel://h/name?nonsense=1", "redis+sentinel://h/name?protocol=7",
            "redis+sentinel://h/name?sentinel_passwd=s3cret"],
)  # fmt: skip
def test_an_invalid_url_is_refused(url: Any) -> None:
    for kind in (Presence, AsyncPresence):
        with pytest.raises(InvalidArgument, match=r"^url .*\.$") as refused:
            kind.from_url(url)
        assert "s3cret" not in str(refused.value)


def test_options_of_a_url_also_apply_to_sentinels() -> None:
    with Presence.from_url("redis+sentinel://[::1]:5,localhost/name/2?max_connections=7&health_check_interval=3") as p:
        pool = p._transport._client.connection_pool
    assert [sentinel.connection_pool.connection_kwargs["host"] for sentinel in pool.sentinel_manager.sentinels] == [
        "::1",
        "localhost",
    ]
    assert pool.max_connections == 7
    assert (pool.connection_kwargs["db"], pool.connection_kwargs["health_check_interval"]) == (2, 3)


def test_a_refused_url_is_not_repeated_with_its_password() -> None:
    for url in ("redis://user:hunter2@host:port/0", "http://user:hunter2@host/", "redis+sentinel://:hunter2@h"):
        with pytest.raises(InvalidArgument) as refused:
            Presence.from_url(url)
        assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("sign", ["/", "#", "?", "/@", "?@", "@/", "/1?", "?a=1&"])
@pytest.mark.parametrize("kind", [Presence, AsyncPresence, LastSeenTracker, AsyncMinuteSetTracker])
def test_a_password_that_is_not_percent_encoded_gets_the_hint_and_is_not_repeated(kind: Any, sign: str) -> None:
    for start in (f"ada:hunter{sign}37", f":21{sign}37"):
        for url in (
            f"redis://{start}@127.0.0.1:1/0",
            f"rediss://{start}@127.0.0.1:1",
            f"redis+cluster://{start}@h1,h2:7001",
            f"redis+sentinel://{start}@h1,h2/name/0",
            *([f"unix://{start}@/run/redis.sock"] if sign != "@/" else ()),  # a path may have an "@"
        ):
            with pytest.raises(
                InvalidArgument, match=r"/ as %2F, # as %23, \? as %3F, @ as %40 and % as %25"
            ) as refused:
                kind.from_url(url, *(("{key}", 60) if "Tracker" in kind.__name__ else ()))
            assert refused.value.field == "url"
            assert not re.search("hunter|37|21|ada", str(refused.value).replace("%3F", ""))


def test_signs_that_end_no_host_are_read_as_they_are_meant() -> None:
    meant: dict[str, dict[str, object]] = {
        "redis://ada:a%2Fb%23c%3Fd%40e%25@h:7": {"username": "ada", "password": "a/b#c?d@e%", "host": "h", "port": 7},
        "redis://:a@b@h": {"password": "a@b", "host": "h"},
        "redis://h?password=a@b&client_name=c@d": {"password": "a@b", "client_name": "c@d"},
        "unix:///run/redis@7.sock": {"path": "/run/redis@7.sock"},
        "unix://:a@/run/redis@7.sock": {"path": "/run/redis@7.sock", "password": "a"},
    }
    for url, options in meant.items():
        with Presence.from_url(url) as p:
            given = p.internal.redis_client.connection_pool.connection_kwargs
            assert {name: given.get(name) for name in options} == options


def test_a_cluster_takes_several_start_nodes_with_one_user_and_password() -> None:
    p = AsyncPresence.from_url("redis+cluster://ada:a%2Fb,c@h1,h2:7001,[::1]:7002,[2001:db8::1]?client_name=x")
    manager = p.internal.redis_client.nodes_manager
    assert sorted(manager.startup_nodes) == ["2001:db8::1:6379", "::1:7002", "h1:6379", "h2:7001"]
    for node in manager.startup_nodes.values():
        given = node.connection_kwargs
        assert [given[name] for name in ("username", "password", "client_name")] == ["ada", "a/b,c", "x"]


_SYNC = r"client must be a redis\.Redis or redis\.RedisCluster"
_ASYNC = r"client must be a redis\.asyncio\.Redis or redis\.asyncio\.RedisCluster"

_SENTINEL: Any = Sentinel([("host", 1)])  # type: ignore[no-untyped-call]


@pytest.mark.parametrize(
    ("kind", "client", "sentence"),
    [
        (Presence, lambda: "redis://:s3cret@host", _SYNC + r", not text: for a URL call Presence\.from_url"),
        (AsyncPresence, lambda: "redis://:s3cret@host", _ASYNC + r", not text: for a URL call AsyncPresence\.from_url"),
        (Presence, lambda: None, _SYNC),
        (AsyncPresence, lambda: None, _ASYNC),
        (Presence, redis.asyncio.Redis, _SYNC + ": this one is for AsyncPresence"),
        (AsyncPresence, redis.Redis, _ASYNC + ": this one is for Presence"),
        (
            Presence,
            lambda: _SENTINEL,
            _SYNC + r", not a Sentinel: pass what its master_for\(name\) returns",
        ),
        (AsyncPresence, lambda: _SENTINEL, _ASYNC + ", not a Sentinel: .*"),
        (Presence, lambda: object(), _SYNC),
    ],
)
def test_an_object_that_is_not_a_client_is_refused_with_advice(
    kind: Any, client: Callable[[], Any], sentence: str
) -> None:
    with pytest.raises(InvalidArgument, match=rf"^{sentence}\.$") as refused:
        kind(client())
    assert "s3cret" not in str(refused.value)


def test_buffers_and_workers_also_check_their_arguments() -> None:
    presence = Presence.from_url("redis://127.0.0.1:1")
    intervals: list[Any] = [0, 3601, "1", None, True]
    options: list[dict[str, Any]] = [
        *({"interval": interval} for interval in intervals),
        {"max_refs": 0},
        {"on_offline": 5},
    ]
    for option in options:
        with pytest.raises(InvalidArgument):
            HeartbeatBuffer(presence, **option)
    with pytest.raises(InvalidArgument, match=r"^presence must be a Presence or an AsyncPresence\.$"):
        HeartbeatBuffer(cast(Presence, "redis://localhost"))
    with pytest.raises(InvalidArgument, match=r"^presence must be a Presence: "):
        Worker(cast(Presence, AsyncPresence.from_url("redis://127.0.0.1:1")))
    for interval in intervals:
        with pytest.raises(InvalidArgument):
            Worker(presence, interval=interval)
    accepts: list[Any] = [None, 1, "yes"]
    for accept in accepts:
        with pytest.raises(InvalidArgument, match=r"^accept_clock must be True or False\.$"):
            Worker(presence, accept_clock=accept)
