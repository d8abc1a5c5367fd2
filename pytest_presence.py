"""The pytest plugin of presence_core: a private Redis, and clients with an empty namespace for each test.

docs/use/testing.md describes the fixtures. A test run that uses none of them pays for this file alone: it imports
nothing of presence_core until then. That is why it is no part of the package, whose import loads the client.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from presence_core import AsyncPresence, Presence, Settings
    from presence_core.testing import Clock


@pytest.fixture(scope="session")
def presence_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a private server, which starts at its first use and stops after the last test."""
    from presence_core.embedded import EmbeddedServer

    with EmbeddedServer.start(tmp_path_factory.mktemp("presence")) as server:
        yield server.url


@pytest.fixture
def presence_settings() -> Settings:
    """Settings of the test's clients. Define a fixture of this name to change them; their namespace does not count."""
    from presence_core import Settings

    return Settings()


@pytest.fixture
def presence_namespace() -> str:
    """A namespace that only this test has."""
    from presence_core.testing import new_namespace

    return new_namespace()


@pytest.fixture
def presence_clock() -> Clock:
    """The clock of ``presence`` and ``async_presence``: ``freeze()`` and ``advance(seconds)``."""
    from presence_core.testing import Clock

    return Clock()


@pytest.fixture
def presence(
    presence_url: str, presence_namespace: str, presence_settings: Settings, presence_clock: Clock
) -> Iterator[Presence]:
    """A Presence with no sessions."""
    from presence_core import Presence

    with Presence.from_url(presence_url, replace(presence_settings, namespace=presence_namespace)) as client:
        presence_clock.follow(client)
        yield client


@pytest.fixture
def async_presence(
    presence_url: str, presence_namespace: str, presence_settings: Settings, presence_clock: Clock
) -> AsyncPresence:
    """An AsyncPresence with the sessions of ``presence``. It works in any event loop and needs no close."""
    from presence_core.testing import connect_async

    client = connect_async(presence_url, replace(presence_settings, namespace=presence_namespace))
    presence_clock.follow(client)
    return client


@pytest.fixture
def presence_environ(presence_url: str, presence_namespace: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Set the variables that ``from_env`` reads, for this test. Returns them, for programs that the test starts."""
    variables = {"PRESENCE_REDIS_URL": presence_url, "PRESENCE_NAMESPACE": presence_namespace}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return variables
