"""Calls to a server that is gone fail at once in these tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from presence_core.transport import exchange


@pytest.fixture(autouse=True)
def brief_pauses() -> Iterator[None]:
    """A call that cannot connect is tried as often as in production, but for 20 ms, not 0.4 s."""
    with pytest.MonkeyPatch.context() as patch:  # its own: that of a test is undone before its other fixtures
        patch.setattr(exchange, "_PAUSES", (0.005,) * len(exchange._PAUSES))
        yield
