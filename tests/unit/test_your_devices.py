"""Your devices without a server: tokens and handles."""

from __future__ import annotations

import pytest

from presence_core.web.your_devices import csrf
from presence_core.web.your_devices.exchange import body_length
from presence_core.web.your_devices.handles import derive_key, find_session, handle_of


def test_a_token_is_for_one_session_one_key_and_twelve_hours() -> None:
    token = csrf.make_token(b"key", "ada:session-1", 1_000_000)
    assert csrf.is_token(b"key", "ada:session-1", token, 1_000_000)
    assert csrf.is_token(b"key", "ada:session-1", token, 1_000_000 + csrf.TOKEN_SECONDS)
    assert not csrf.is_token(b"key", "ada:session-1", token, 1_000_001 + csrf.TOKEN_SECONDS)
    assert csrf.is_token(b"key", "ada:session-1", token, 1_000_000 - 300), "clocks differ a little"
    assert not csrf.is_token(b"key", "ada:session-1", token, 1_000_000 - 301)
    assert not csrf.is_token(b"key", "ada:session-2", token, 1_000_000)
    assert not csrf.is_token(b"yek", "ada:session-1", token, 1_000_000)
    for bad in ("", ".", token.upper(), f"{token}A", token.replace("f4240", "f4241"), "é", f"x{token}", token + "\n"):
        assert not csrf.is_token(b"key", "ada:session-1", bad, 1_000_000), bad


def test_a_handle_names_a_session_of_its_user_only() -> None:
    key = derive_key(b"secret", "handle")
    ids = ["session-1", "session-2", "session-3"]
    made = {handle_of(key, uid, sid) for uid in ("ada", "eve", "ü😀", "a:b") for sid in ids}
    assert len(made) == 12
    assert find_session(key, "ada", ids, handle_of(key, "ada", "session-2")) == "session-2"
    assert find_session(key, "ada", ids, handle_of(key, "eve", "session-2")) is None
    assert find_session(key, "ada", ids, "\ud800") is None
    assert derive_key(b"secret", "csrf") != key


@pytest.mark.parametrize(
    ("given", "length"),
    [("", 0), ("0", 0), ("4096", 4096), ("4097", None), ("9" * 5000, None), ("-1", None), ("\u00b2", None)],
)
def test_the_length_of_a_body_is_a_number_up_to_the_limit(given: str, length: int | None) -> None:
    assert body_length({"CONTENT_LENGTH": given}) == length
