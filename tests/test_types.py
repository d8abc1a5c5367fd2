"""What a type checker knows about the public API. ``mypy --strict`` fails for each ignore that it does not need."""

from __future__ import annotations

from typing import assert_type

import pytest

from presence_core import (
    AsyncPresence,
    Ended,
    Event,
    InvalidArgument,
    KickResult,
    Presence,
    Session,
    Settings,
    Validation,
    ValidationFailed,
    ValidationPassed,
)


def name_or_reason(validation: Validation) -> str | None:
    """``if validation`` is all that a type checker needs."""
    if validation:
        assert_type(validation.session, Session)
        return validation.session.name
    assert_type(validation.session, None)
    assert_type(validation.ended, Ended | None)
    return validation.ended.reason if validation.ended else None


def of_a_call(presence: Presence, token: str) -> str | None:
    if not (seen := presence.validate(token)):
        return None
    return seen.session.name


async def of_an_awaited_call(presence: AsyncPresence) -> str | None:
    seen = await presence.validate_session("ada", "session-1")
    return seen.session.name if seen else None


async def of_arguments_of_an_awaited_call(presence: AsyncPresence) -> None:
    assert_type(await presence.kick("ada", by="dana", reason="stolen phone"), KickResult)
    await presence.set_staff("dana", "suport", by="root")  # type: ignore[arg-type]
    await presence.rotate()  # type: ignore[call-arg]


def misspelt(presence: Presence, event: Event) -> None:
    presence.set_staff("dana", "suport", by="root")  # type: ignore[arg-type]
    presence.ended(reason="kick")  # type: ignore[arg-type]
    assert event.kind != "log-in"  # type: ignore[comparison-overlap]


def test_a_validation_is_its_public_name_for_isinstance() -> None:
    assert isinstance(ValidationFailed(), Validation)
    assert not ValidationFailed()
    assert (ValidationFailed().session, ValidationFailed().ended) == (None, None)
    assert bool(ValidationPassed(lambda: pytest.fail("decoded though only the truth was asked for")))


def test_a_misspelt_choice_is_refused_at_run_time_too() -> None:
    with pytest.raises(InvalidArgument, match=r'^on_limit must be "replace" or "reject"\.$'):
        Settings(on_limit="rejct")  # type: ignore[arg-type]
