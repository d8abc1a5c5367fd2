"""Settings are checked field by field, from any source."""

from __future__ import annotations

from typing import Any

import pytest

from presence_core import AsyncPresence, InvalidArgument, Presence, Settings

BAD: list[tuple[str, Any]] = [
    *(("namespace", value) for value in ("", "A", "a b", "a:b", "{a}", "x" * 33, "é", None, 5, "a\n")),
    *(("shards", value) for value in (0, 1025, -1, 1.5, "4", True)),
    *(("idle_timeout", value) for value in (0, -1, 1.5, "5", None, 315_360_001, 86_401, True)),
    *(("absolute_timeout", value) for value in (0, 1.5, None, 315_360_001)),
    *(("max_sessions", value) for value in (0, 1001, None, 1.5, "3", True)),
    *(("max_sessions_per_device", value) for value in (0, 1001, "3")),
    *(("rotate_grace", value) for value in (-1, 301, 1.5, "30", None, True)),
    *(("on_limit", value) for value in ("", "drop", None)),
    *((f"keep_{what}", value) for what in ("kicked", "replaced", "expired", "logout", "people") for value in (-1, 1.5)),
    *(("keep_history_10s", value) for value in (0, 3599, 30 * 86_400 + 1, 1.5, "3600", None, True)),
    *(("keep_history_1m", value) for value in (0, 86_399, 730 * 86_400 + 1, 1.5)),
    *(("keep_history_1h", value) for value in (0, 30 * 86_400 - 1, 315_360_001, 1.5)),
    *(("max_ended", value) for value in (-1, 10_000_001)),
    *((name, value) for name in ("max_events", "max_audit") for value in (0, 99, 10_000_001)),
    *(("keep_audit", value) for value in (0, -1, 1.5, None, 315_360_001)),
    *(("truncate_addresses_after", value) for value in (-1, 3651, 1.5, "30", True)),
    *(("indexes", value) for value in (None, "uid", ["uid"], ("email",), (["uid"],))),
    *(("facets", value) for value in (None, "plan", ["plan"], ("",), (["plan"],), ("x" * 65,), tuple("abcdefghi"))),
    *((name, value) for name in ("record_ttl", "heal") for value in (None, 1, "yes")),
    *(("confirm_replicas", value) for value in (-1, 11, 1.5, None, True)),
    *(("confirm_hold", value) for value in (-1, 3601, 1.5, None, True)),
    *(("confirm_timeout", value) for value in (0, 30_001, 1.5, None)),
    *(("timeout", value) for value in (0, 0.01, 61, None, "2", float("nan"), float("inf"))),
]


@pytest.mark.parametrize(("field", "value"), BAD)
def test_a_bad_setting_is_named_with_its_limit(field: str, value: Any) -> None:
    with pytest.raises(InvalidArgument, match=rf"^{field} must be .*\.$"):
        Settings(**{field: value})


def test_an_idle_timeout_may_not_exceed_the_absolute_one() -> None:
    with pytest.raises(InvalidArgument, match=r"^idle_timeout must be at most absolute_timeout\.$"):
        Settings(absolute_timeout=1799)
    assert Settings(idle_timeout=1800, absolute_timeout=1800).idle_timeout == 1800


def test_waiting_for_a_confirmation_takes_at_most_half_of_a_calls_time() -> None:
    with pytest.raises(InvalidArgument, match=r"^confirm_timeout must be at most half of timeout\.$"):
        Settings(confirm_replicas=1, confirm_timeout=1001)
    assert Settings(confirm_replicas=1, confirm_timeout=1000).confirm_timeout == 1000
    assert Settings(timeout=0.5).confirm_replicas == 0


def test_settings_can_come_from_the_environment() -> None:
    given = {
        "PRESENCE_NAMESPACE": "shop", "PRESENCE_IDLE_TIMEOUT": " 900 ", "PRESENCE_TIMEOUT": "0.5",
        "PRESENCE_HEAL": "no", "PRESENCE_MAX_SESSIONS_PER_DEVICE": "2", "PRESENCE_ON_LIMIT": "reject",
        "PRESENCE_SHARDS": "", "HOME": "/",
    }  # fmt: skip
    expected = Settings("shop", idle_timeout=900, timeout=0.5, heal=False, max_sessions_per_device=2, on_limit="reject")
    assert Settings.from_env(given) == expected
    assert Settings.from_env({}) == Settings()


@pytest.mark.parametrize(
    ("variable", "value"), [("IDLE_TIMEOUT", "soon"), ("HEAL", "maybe"), ("TIMEOUT", "x"), ("SHARDS", "1.5")]
)
def test_a_variable_that_cannot_be_read_is_named(variable: str, value: str) -> None:
    with pytest.raises(InvalidArgument, match=rf"^PRESENCE_{variable} must be .*\.$"):
        Settings.from_env({f"PRESENCE_{variable}": value})


def test_a_client_from_the_environment_takes_url_and_settings_from_it() -> None:
    with Presence.from_env({"PRESENCE_REDIS_URL": "redis://127.0.0.1:1", "PRESENCE_NAMESPACE": "shop"}) as presence:
        assert presence.settings == Settings("shop")


@pytest.mark.parametrize("environ", [{}, {"PRESENCE_REDIS_URL": " ", "REDIS_URL": ""}])
@pytest.mark.parametrize("client", [Presence, AsyncPresence])
def test_a_client_from_an_environment_without_a_server_is_refused(client: Any, environ: dict[str, str]) -> None:
    with pytest.raises(InvalidArgument, match=r"^PRESENCE_REDIS_URL must be set: [^.]+\.$"):
        client.from_env(environ)


def test_settings_cannot_be_changed_afterwards() -> None:
    settings = Settings()
    with pytest.raises(AttributeError):
        settings.max_sessions = 5  # type: ignore[misc]
